-- Every version of the configuration of an endpoint, beside the entry of the audit log that tells of the change. A row is written by the
-- statement that writes the entry. It goes when the version that replaced it is as old as entries that go; the current version stays.

-- +goose Up
CREATE TABLE endpoint_versions (
    endpoint_id uuid NOT NULL, -- no reference: rows are copied from endpoints, which nothing deletes
    version     bigint NOT NULL,
    tenant_id   uuid NOT NULL,
    spec        jsonb NOT NULL,
    changed_at  timestamptz NOT NULL,
    changed_by  text NOT NULL,
    audit_id    uuid,        -- null: written before versions were kept
    replaced_at timestamptz, -- when the next version came; null: current
    PRIMARY KEY (endpoint_id, version)
);
CREATE INDEX endpoint_versions_replaced ON endpoint_versions (replaced_at) WHERE replaced_at IS NOT NULL;
INSERT INTO endpoint_versions (endpoint_id, version, tenant_id, spec, changed_at, changed_by)
SELECT id, version, tenant_id, spec, updated_at, '' FROM endpoints;

-- +goose Down
DROP TABLE endpoint_versions;
