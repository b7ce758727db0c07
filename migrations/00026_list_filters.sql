-- Every filter of the lists of changes and of notices follows an index. What most entries are is found at once without one, so some of the
-- indexes hold the rest alone.

-- +goose Up
CREATE INDEX audit_log_key ON audit_log (tenant_id, key_id, id DESC);
CREATE INDEX audit_log_action ON audit_log (tenant_id, action, id DESC) WHERE action NOT IN ('register', 'edit', 'hint');
CREATE INDEX audit_log_kind ON audit_log (tenant_id, object_kind, id DESC) WHERE object_kind <> 'endpoint';
CREATE INDEX notice_episodes_endpoint ON notice_episodes (tenant_id, endpoint_id);
CREATE INDEX notice_episodes_rule ON notice_episodes (tenant_id, rule);
CREATE INDEX notices_muted ON notices (tenant_id, id DESC) WHERE state = 'muted';

-- +goose Down
DROP INDEX notices_muted, notice_episodes_rule, notice_episodes_endpoint, audit_log_kind, audit_log_action, audit_log_key;
