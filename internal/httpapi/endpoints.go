package httpapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/hosts"
	"rubato/internal/httpapi/api"
	"rubato/internal/notation"
)

// CreateEndpoint registers an endpoint.
func (s *Server) CreateEndpoint(ctx context.Context, _ api.CreateEndpointRequestObject) (api.CreateEndpointResponseObject, error) {
	in := inputOf(ctx)
	in.refuseMask()
	spec, err := endpoints.ReadSpec(in.value)
	if err != nil {
		return nil, fmt.Errorf("reading an endpoint: %w", err)
	}
	if in.bad() {
		return nil, s.refuseSpec(ctx, in, spec, s.endpoints.Check(spec))
	}
	e, warnings, err := s.endpoints.Register(ctx, actorOf(ctx), spec)
	if err != nil {
		return nil, s.refuseSpec(ctx, in, spec, err)
	}
	return api.CreateEndpoint201JSONResponse{
		Body: endpointAnswer(e, e.CreatedAt, warnings),
		Headers: api.CreateEndpoint201ResponseHeaders{
			ETag: etag(e.Version), Location: "/v1/endpoints/" + e.ID.String(),
		},
	}, nil
}

// GetEndpoint returns an endpoint.
func (s *Server) GetEndpoint(ctx context.Context, r api.GetEndpointRequestObject) (api.GetEndpointResponseObject, error) {
	id, err := endpoints.ParseID(r.ID)
	if err != nil {
		return nil, err
	}
	e, now, err := s.endpoints.Get(ctx, actorOf(ctx), id)
	if err != nil {
		return nil, err
	}
	return api.GetEndpoint200JSONResponse{
		Body: endpointAnswer(e, now, nil), Headers: api.GetEndpoint200ResponseHeaders{ETag: etag(e.Version)},
	}, nil
}

// PatchEndpoint edits an endpoint.
func (s *Server) PatchEndpoint(ctx context.Context, r api.PatchEndpointRequestObject) (api.PatchEndpointResponseObject, error) {
	id, err := endpoints.ParseID(r.ID)
	if err != nil {
		return nil, err
	}
	in, by := inputOf(ctx), actorOf(ctx)
	in.refuseMask()
	if in.bad() {
		return nil, s.refusePatch(ctx, id, in)
	}
	var spec endpoints.Spec
	e, warnings, err := s.endpoints.Edit(ctx, by, id, versionOf(r.Params.IfMatch), func(stored endpoints.Spec) (_ endpoints.Spec, err error) {
		spec, err = patched(stored, in.value)
		return spec, err
	})
	if err != nil {
		return nil, s.refuseSpec(ctx, in, spec, err)
	}
	return api.PatchEndpoint200JSONResponse{EndpointJSONResponse: changed(e, warnings)}, nil
}

// refusePatch names every bad field of a patch that cannot be applied.
func (s *Server) refusePatch(ctx context.Context, id endpoints.ID, in *input) error {
	e, _, err := s.endpoints.Get(ctx, actorOf(ctx), id)
	if err != nil {
		return err
	}
	spec, err := patched(e.Spec, in.value)
	if err != nil {
		return err
	}
	return s.refuseSpec(ctx, in, spec, s.endpoints.Check(spec))
}

// refuseSpec returns the error that names every bad field of a spec, of which err holds those that
// the domain found. The store looks up what a spec refers to only where nothing else is wrong with
// it, so that is done here.
func (s *Server) refuseSpec(ctx context.Context, in *input, spec endpoints.Spec, err error) error {
	if err != nil && errs.CodeOf(err) != errs.Invalid {
		return err
	}
	unknown := s.bulk.UnknownSecrets(ctx, actorOf(ctx), spec)
	if unknown != nil && errs.CodeOf(unknown) != errs.Invalid {
		return unknown
	}
	return in.refuse(errs.InvalidFields(slices.Concat(errs.FieldsOf(err), errs.FieldsOf(unknown))))
}

// ArchiveEndpoint takes an endpoint out of service.
func (s *Server) ArchiveEndpoint(ctx context.Context, r api.ArchiveEndpointRequestObject) (api.ArchiveEndpointResponseObject, error) {
	id, err := endpoints.ParseID(r.ID)
	if err != nil {
		return nil, err
	}
	if err := s.endpoints.Archive(ctx, actorOf(ctx), id, versionOf(r.Params.IfMatch)); err != nil {
		return nil, err
	}
	return api.ArchiveEndpoint204Response{}, nil
}

// ListEndpoints returns a page of endpoints.
func (s *Server) ListEndpoints(ctx context.Context, r api.ListEndpointsRequestObject) (api.ListEndpointsResponseObject, error) {
	f, err := endpointFilter(ctx, r.Params)
	if err != nil {
		return nil, err
	}
	fields, err := fieldsOf(r.Params.Fields, s.rules.endpoint)
	if err != nil {
		return nil, err
	}
	f.Limit = limitOf(r.Params.Limit) + 1
	digest := filterDigest("endpoints", f.TenantID, f.Labels, f.Key, f.Name, f.NamePrefix, f.Host, f.State)
	if f.Before, err = resume(r.Params.Cursor, digest); err != nil {
		return nil, err
	}
	found, now, err := s.endpoints.List(ctx, f)
	if err != nil {
		return nil, err
	}
	out := api.EndpointList{Items: []api.Endpoint{}}
	found, more := page(found, f.Limit)
	for _, e := range found {
		out.Items = append(out.Items, endpointAnswer(e, now, faultOf(e)))
	}
	if more {
		out.NextCursor = new(cursor(found[len(found)-1].ID, digest))
	}
	if fields != nil {
		return selected{
			items:  out.Items,
			next:   out.NextCursor,
			fields: fields,
		}, nil
	}
	return api.ListEndpoints200JSONResponse(out), nil
}

// faultOf returns the warning that marks an endpoint in a list if a part of its stored
// configuration cannot be read.
func faultOf(e *endpoints.Endpoint) []errs.Field {
	fault, ok := errors.AsType[*errs.Error](e.Fault)
	if !ok {
		return nil
	}
	return []errs.Field{{Field: "id", Code: string(fault.Code), Message: fault.Message}}
}

// endpointFilter reads the filters of a list.
func endpointFilter(ctx context.Context, p api.ListEndpointsParams) (endpoints.Filter, error) {
	wanted, err := labelsOf(p.Label)
	if err != nil {
		return endpoints.Filter{}, err
	}
	f := endpoints.Filter{TenantID: principalOf(ctx).TenantID, Labels: wanted}
	set(&f.Key, p.Key)
	set(&f.Name, p.Name)
	set(&f.NamePrefix, p.NamePrefix)
	if p.Host != nil {
		name, ok := hosts.ParseName(*p.Host)
		if !ok {
			return endpoints.Filter{}, badParameter("host", "invalid_value", "must be host and port, such as api.example.com:8443")
		}
		f.Host = name
	}
	if p.State != nil {
		f.State = string(*p.State)
	}
	return f, nil
}

// labelsOf reads label filters, each key:value.
func labelsOf(given *[]string) (map[string]string, error) {
	if given == nil {
		return nil, nil //nolint:nilnil // No filter is no error.
	}
	wanted := map[string]string{}
	for _, label := range *given {
		key, value, found := notation.CutPair(label, ':')
		if !found || key == "" {
			return nil, badParameter("label", "invalid_value", `must be key:value, such as team:sales; a colon in the key is written \:`)
		}
		if other, twice := wanted[key]; twice && other != value {
			return nil, badParameter("label", "invalid_value", "asks for two values of one label, which no endpoint can have")
		}
		wanted[key] = value
	}
	return wanted, nil
}

// changed returns the answer to a write. Its state is that of the moment after the write, which is
// now to any reader's eye.
func changed(e *endpoints.Endpoint, warnings []errs.Field) api.EndpointJSONResponse {
	return api.EndpointJSONResponse{
		Body: endpointAnswer(e, time.Now(), warnings), Headers: api.EndpointResponseHeaders{ETag: etag(e.Version)},
	}
}

// noVersion is a version that no endpoint has.
const noVersion = -1

// versionOf returns the version that If-Match names; 0 is any. Tags that are not ours match
// nothing: a weak one never matches, and an unknown ETag matches no version.
func versionOf(ifMatch *string) int64 {
	if ifMatch == nil || *ifMatch == "*" {
		return 0
	}
	version, err := strconv.ParseInt(strings.Trim(*ifMatch, `"`), 10, 64)
	if err != nil || version < 1 || etag(version) != *ifMatch {
		return noVersion
	}
	return version
}

// noEndpointID is the error of a parameter that is not a valid endpoint ID.
const noEndpointID = "must be an endpoint id, such as ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"

// endpointNamed reads the endpoint that a list or a stream is about; zero where none is named.
func endpointNamed(given *string) (endpoints.ID, error) {
	if given == nil {
		return endpoints.ID{}, nil
	}
	id, err := endpoints.ParseID(*given)
	if err != nil {
		return id, badParameter("endpointId", "invalid_id", noEndpointID)
	}
	return id, nil
}

func badParameter(name, code, message string) error {
	return malformedFields([]errs.Field{{Field: name, Code: code, Message: message}})
}
