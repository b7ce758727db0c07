package httpapi

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/oapi-codegen/runtime"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/httpapi/api"
)

// Versions reads the versions of endpoints.
type Versions interface {
	// Versions returns up to limit versions of an endpoint that lie below one, the newest first;
	// none if the tenant has no such endpoint.
	Versions(ctx context.Context, tenant [16]byte, id endpoints.ID, before int64, limit int) ([]endpoints.Version, error)
}

// ListEndpointVersions returns a page of the versions of an endpoint.
func (s *Server) ListEndpointVersions(ctx context.Context, r api.ListEndpointVersionsRequestObject) (api.ListEndpointVersionsResponseObject, error) {
	digest := filterDigest("versions", principalOf(ctx).TenantID, r.ID)
	last, err := resume(r.Params.Cursor, digest)
	if err != nil {
		return nil, err
	}
	before := int64(math.MaxInt64)
	if r.Params.Cursor != nil {
		before = int64(binary.BigEndian.Uint64(last[8:]))
	}
	asked := limitOf(r.Params.Limit) + 1
	found, err := s.versionsOf(ctx, r.ID, before, asked)
	if err != nil {
		return nil, err
	}
	out := api.ListEndpointVersions200JSONResponse{Items: []api.EndpointVersion{}}
	found, more := page(found, asked)
	for _, v := range found {
		out.Items = append(out.Items, versionAnswer(v))
	}
	if more {
		binary.BigEndian.PutUint64(last[8:], uint64(found[len(found)-1].Number))
		out.NextCursor = new(cursor(last, digest))
	}
	return out, nil
}

// GetEndpointVersion returns one version of an endpoint.
func (s *Server) GetEndpointVersion(ctx context.Context, r api.GetEndpointVersionRequestObject) (api.GetEndpointVersionResponseObject, error) {
	found, err := s.versionsOf(ctx, r.ID, r.Version+1, 1)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 || found[0].Number != r.Version {
		return nil, errs.New(errs.NotFound, "not_found",
			fmt.Sprintf("there is no version %d of endpoint %s; versions are kept as long as the audit log, and the current one always", r.Version, r.ID))
	}
	v := versionAnswer(found[0])
	out := api.GetEndpointVersion200JSONResponse{
		Version:   v.Version,
		ChangedAt: v.ChangedAt,
		ChangedBy: v.ChangedBy,
		AuditID:   v.AuditID,
		Changes:   v.Changes,
	}
	if err := runtime.BindJSONValue(shownSpec(&found[0].Spec), &out.Spec); err != nil {
		return nil, fmt.Errorf("writing version %d of endpoint %s: %w", r.Version, r.ID, err)
	}
	return out, nil
}

// versionsOf reads versions. If there are none, the error is that of an endpoint that is not there.
func (s *Server) versionsOf(ctx context.Context, given string, before int64, limit int) ([]endpoints.Version, error) {
	id, err := endpoints.ParseID(given)
	if err != nil {
		return nil, err
	}
	found, err := s.versions.Versions(ctx, principalOf(ctx).TenantID, id, before, limit)
	if err == nil && len(found) == 0 {
		_, _, err = s.endpoints.Get(ctx, actorOf(ctx), id)
	}
	return found, err
}

func versionAnswer(v endpoints.Version) api.EndpointVersion {
	out := api.EndpointVersion{
		Version:   v.Number,
		ChangedAt: v.ChangedAt.UTC(),
		ChangedBy: v.ChangedBy,
	}
	if v.AuditID != [16]byte{} {
		out.AuditID = new(auditlog.ID(v.AuditID).String())
	}
	if v.Changes != nil {
		out.Changes = &v.Changes
	}
	return out
}
