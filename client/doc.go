// Package client is the Go client of the REST API. Types and methods are generated from the
// contract in api/openapi.yaml; [New], [Refused] and [WithIdempotencyKey] are written by hand.
//
// Every operation has a method ending in WithResponse, which returns the decoded body of each
// status in the contract (JSON200, JSON201 and so on). [Refused] returns the error of the server,
// if any:
//
//	answer, err := c.GetEndpointWithResponse(ctx, id)
//	if err != nil {
//		return err // no response
//	}
//	if err := client.Refused(answer.HTTPResponse, answer.Body); err != nil {
//		return err // a *client.Problem
//	}
//	use(answer.JSON200)
//
// A field of a typed patch that is nil is not sent, so it stays as it is. To clear fields, send a
// patch with null in it by PatchEndpointWithBodyWithResponse.
package client

//go:generate go tool -modfile=../tools/go.mod oapi-codegen -config oapi-codegen.yaml ../api/openapi.yaml
