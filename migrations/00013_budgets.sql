-- Budgets of runs that the endpoints of a tenant, a host or a label share.

-- +goose Up

-- A worker writes its runs here every ten seconds, so that no run waits for a budget. used counts
-- the runs since stepped_at.
CREATE TABLE budgets (
    tenant_id  uuid NOT NULL REFERENCES tenants (id),
    -- tenant, host:shop.example.com or label:team=shop.
    name       text NOT NULL CHECK (name = 'tenant' OR name ~ '^(host|label):.' AND length(name) <= 400),
    budget     text NOT NULL CHECK (budget ~ '^[1-9][0-9]{0,9}/[smhd]$'),
    -- The price of a run in change-seconds.
    price      double precision NOT NULL CHECK (price > 0 AND price < 'infinity'),
    used       bigint NOT NULL DEFAULT 0 CHECK (used >= 0),
    stepped_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, name)
);

-- +goose Down
DROP TABLE budgets;
