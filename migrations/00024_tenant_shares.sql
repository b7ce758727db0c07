-- While more is due than workers can take, they take it by tenant: the oldest of each, in equal shares. For that a schedule knows its
-- tenant, and what nobody has claimed is indexed by tenant. A claim takes its row out of this index, so a run costs one entry of it.

-- +goose Up

-- Rows that exist are of the first tenant, which every installation has, without being written; those of others are corrected.
ALTER TABLE schedules ADD COLUMN tenant_id uuid DEFAULT '00000000-0000-0000-0000-000000000001';
ALTER TABLE schedules ALTER COLUMN tenant_id DROP DEFAULT;
UPDATE schedules s
SET tenant_id = e.tenant_id
FROM endpoints e
WHERE e.id = s.endpoint_id
  AND e.tenant_id <> '00000000-0000-0000-0000-000000000001';
CREATE INDEX schedules_tenant_due ON schedules (tenant_id, due_at) WHERE claimed_by IS NULL;

-- Programs of the release before do not name the tenant.
-- +goose StatementBegin
CREATE FUNCTION schedule_name_tenant() RETURNS trigger
    LANGUAGE plpgsql AS
$$
BEGIN
    SELECT e.tenant_id INTO NEW.tenant_id FROM endpoints e WHERE e.id = NEW.endpoint_id;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER schedules_name_tenant
    BEFORE INSERT ON schedules
    FOR EACH ROW WHEN (NEW.tenant_id IS NULL)
EXECUTE FUNCTION schedule_name_tenant();

-- +goose Down
DROP TRIGGER schedules_name_tenant ON schedules;
DROP FUNCTION schedule_name_tenant();
DROP INDEX schedules_tenant_due;
ALTER TABLE schedules DROP COLUMN tenant_id;
