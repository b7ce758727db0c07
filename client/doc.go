// Package client is the Go client of the REST API. Types and methods are generated from the contract in api/openapi.yaml; [New] and
// [Refused] are what is added by hand, and [WithIdempotencyKey].
//
// Every operation has a method ending in WithResponse, whose answer holds the decoded body of each status that the contract knows
// (JSON200, JSON201 and so on). Whether the server refused is for [Refused] to say:
//
//	answer, err := c.GetEndpointWithResponse(ctx, id)
//	if err != nil {
//		return err // not answered
//	}
//	if err := client.Refused(answer.HTTPResponse, answer.Body); err != nil {
//		return err // a *client.Problem
//	}
//	use(answer.JSON200)
//
// A field of a typed patch that is nil is not sent, so it stays as it is. To clear fields, send a patch with null in it by
// PatchEndpointWithBodyWithResponse.
package client

//go:generate go tool -modfile=../tools/go.mod oapi-codegen -config oapi-codegen.yaml ../api/openapi.yaml
