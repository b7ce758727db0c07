-- What a tenant may call besides what everybody may: prefixes and hosts, as the operator writes them. Only the operator's own command
-- writes it; no API call does.

-- +goose Up
ALTER TABLE tenants ADD COLUMN egress_allow text[] NOT NULL DEFAULT '{}' CHECK (cardinality(egress_allow) <= 100);

-- +goose Down
ALTER TABLE tenants DROP COLUMN egress_allow;
