package httpapi

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/httpapi/api"
)

// PutEndpointByKey creates or replaces the endpoint that has a key.
func (s *Server) PutEndpointByKey(ctx context.Context, r api.PutEndpointByKeyRequestObject) (api.PutEndpointByKeyResponseObject, error) {
	only := conditionOn(r.Params.IfMatch, r.Params.IfNoneMatch)
	in := inputOf(ctx)
	if in.value["key"] == nil {
		in.value["key"] = r.Key
	}
	spec, err := endpoints.ReadSpec(in.value)
	if err != nil {
		return nil, fmt.Errorf("reading an endpoint: %w", err)
	}
	if spec.Key != r.Key {
		in.unwanted = append(in.unwanted, errs.Field{
			Field:   "key",
			Code:    "key_mismatch",
			Message: "must be the key of the path, or be left out",
		})
	}
	if in.bad() || !utf8.ValidString(r.Key) || strings.ContainsRune(r.Key, 0) { // No endpoint has such a key, and the database could not look it up.
		return nil, s.refuseSpec(ctx, in, spec, s.endpoints.Check(spec))
	}
	out, err := s.bulk.Upsert(ctx, actorOf(ctx), []endpoints.Upsert{{Key: spec.Key, Want: func(stored *endpoints.Endpoint) (endpoints.Spec, error) {
		if err := only.Endpoint(stored); err != nil {
			return endpoints.Spec{}, err
		}
		return s.unmasked(spec, stored)
	}}}, endpoints.Mode{})
	if err == nil && out[0].Done == endpoints.Failed {
		err = s.refuseSpec(ctx, in, spec, out[0].Err)
	}
	if err != nil {
		return nil, err
	}
	return putAnswer(out[0]), nil
}

func putAnswer(o endpoints.Outcome) api.PutEndpointByKeyResponseObject {
	if o.Done == endpoints.Created {
		return api.PutEndpointByKey201JSONResponse{
			Body: endpointAnswer(o.Endpoint, o.Endpoint.CreatedAt, o.Warnings),
			Headers: api.PutEndpointByKey201ResponseHeaders{
				ETag: etag(o.Endpoint.Version), Location: "/v1/endpoints/" + o.Endpoint.ID.String(),
			},
		}
	}
	return api.PutEndpointByKey200JSONResponse{EndpointJSONResponse: changed(o.Endpoint, o.Warnings)}
}

// conditionOn returns the precondition of If-Match and If-None-Match.
func conditionOn(ifMatch, ifNoneMatch *string) endpoints.Condition {
	return endpoints.Condition{
		Present: ifMatch != nil,
		Version: versionOf(ifMatch),
		Absent:  ifNoneMatch != nil && *ifNoneMatch == "*",
		Not:     versionOf(ifNoneMatch),
	}
}
