package views_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/storetest"
)

// paperwork fills the log of changes and that of notices with 100,000 entries each, of which one in
// two thousand is unlike the others.
func (b *bundle) paperwork(t *testing.T) {
	t.Helper()
	b.Exec(t, `INSERT INTO audit_log (id, tenant_id, at, key_id, actor, action, object_kind, object_id, before, after, request_id, remote_address)
		SELECT (lpad(to_hex((extract(EPOCH FROM $1::timestamptz) * 1000)::bigint + n), 12, '0') || substr(md5(n::text), 1, 20))::uuid, $2, $1,
		       (CASE WHEN n % 2000 = 0 THEN '00000000-0000-0000-0000-000000000002' ELSE '00000000-0000-0000-0000-000000000001' END)::uuid,
		       'ci', CASE WHEN n % 2000 = 0 THEN 'revoke' ELSE 'edit' END, CASE WHEN n % 2000 = 0 THEN 'key' ELSE 'endpoint' END, 'o' || n / 10,
		       NULL, NULL, '', ''
		FROM generate_series(1, 100000) n`, storetest.Noon(), storetest.Tenant.TenantID)
	b.Exec(t, `INSERT INTO notice_episodes (id, tenant_id, rule_id, rule, endpoint_id, event, opened_at, closed_at, detail, remind_at, reminders)
		SELECT ('10000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, $2, $2,
		       CASE WHEN n % 2000 = 0 THEN 'rare' ELSE 'usual' END, e.id, 'failures', $1, $1, '{}', 'infinity', 0
		FROM generate_series(1, 100000) n, LATERAL (SELECT id FROM endpoints WHERE key = 'key-' || (1 + n % 2001)) e`, storetest.Noon(), storetest.Tenant.TenantID)
	b.Exec(t, `INSERT INTO notices (id, tenant_id, episode_id, kind, number, created_at, due_at, state, attempts, claim_token, held, ended_at, error)
		SELECT ('20000000-0000-7000-8000-' || substr(id::text, 25))::uuid, tenant_id, id, 'opened', 0, $1, $1,
		       CASE WHEN rule = 'rare' THEN 'muted' ELSE 'delivered' END, 1, 1, false, $1, ''
		FROM notice_episodes`, storetest.Noon())
	b.Exec(t, "ANALYZE")
}

// listsOfPaperwork holds every filter of the lists of changes and of notices to an index.
func (b *bundle) listsOfPaperwork(t *testing.T) {
	b.paperwork(t)
	changes := func(edit func(*dbsqlc.AuditListParams)) storetest.Statement {
		p := dbsqlc.AuditListParams{TenantID: storetest.Tenant.TenantID, BeforeID: [16]byte(bytes.Repeat([]byte{0xff}, 16)), MaxRows: 51}
		edit(&p)
		return AuditStatement(p)
	}
	notices := func(edit func(*dbsqlc.NoticeListParams)) storetest.Statement {
		p := dbsqlc.NoticeListParams{TenantID: storetest.Tenant.TenantID, MaxRows: 51}
		edit(&p)
		return NoticesStatement(p)
	}
	rare, usual := dbsqlc.UUID{15: 2}, dbsqlc.UUID{15: 1}
	middle := storetest.Query[[16]byte](t, b.Bundle, "SELECT id FROM audit_log ORDER BY id OFFSET 50000 LIMIT 1")
	e := storetest.Query[[16]byte](t, b.Bundle, "SELECT id FROM endpoints WHERE key = 'key-77'")
	for name, s := range map[string]storetest.Statement{
		"Changes":           changes(func(*dbsqlc.AuditListParams) {}),
		"ChangesPage":       changes(func(p *dbsqlc.AuditListParams) { p.BeforeID = middle }),
		"ChangesOfATime":    changes(func(p *dbsqlc.AuditListParams) { p.FromID, p.BeforeID = middle, middle }),
		"ChangesOfObject":   changes(func(p *dbsqlc.AuditListParams) { p.ObjectID = new("o77") }),
		"ChangesOfEndpoint": changes(func(p *dbsqlc.AuditListParams) { p.ObjectKind = new("endpoint") }),
		"ChangesOfKeys":     changes(func(p *dbsqlc.AuditListParams) { p.ObjectKind = new("key") }),
		"ChangesOfNothing":  changes(func(p *dbsqlc.AuditListParams) { p.ObjectKind = new("window") }),
		"Edits":             changes(func(p *dbsqlc.AuditListParams) { p.Action = new("edit") }),
		"Revocations":       changes(func(p *dbsqlc.AuditListParams) { p.Action = new("revoke") }),
		"NoSuchAction":      changes(func(p *dbsqlc.AuditListParams) { p.Action = new("pause") }),
		"ByTheRareKey":      changes(func(p *dbsqlc.AuditListParams) { p.KeyID = &rare }),
		"ByTheUsualKey":     changes(func(p *dbsqlc.AuditListParams) { p.KeyID = &usual }),
		"ByNobody":          changes(func(p *dbsqlc.AuditListParams) { p.KeyID = &dbsqlc.UUID{15: 9} }),
		"Notices":           notices(func(*dbsqlc.NoticeListParams) {}),
		"NoticesPage":       notices(func(p *dbsqlc.NoticeListParams) { p.Before = &dbsqlc.UUID{0x20, 6: 0x70, 8: 0x80, 14: 0x70} }),
		"NoticesDelivered":  notices(func(p *dbsqlc.NoticeListParams) { p.State = new("delivered") }),
		"NoticesDead":       notices(func(p *dbsqlc.NoticeListParams) { p.State = new("dead") }),
		"NoticesWaiting":    notices(func(p *dbsqlc.NoticeListParams) { p.State = new("waiting") }),
		"NoticesMuted":      notices(func(p *dbsqlc.NoticeListParams) { p.State = new("muted") }),
		"NoticesOfUsual":    notices(func(p *dbsqlc.NoticeListParams) { p.Rule = new("usual") }),
		"NoticesOfRare":     notices(func(p *dbsqlc.NoticeListParams) { p.Rule = new("rare") }),
		"NoticesOfNoRule":   notices(func(p *dbsqlc.NoticeListParams) { p.Rule = new("none") }),
		"NoticesOfEndpoint": notices(func(p *dbsqlc.NoticeListParams) { p.EndpointID = &e }),
	} {
		b.ReadsAPage(t, name, s, "audit_log", "endpoints", "notice")
	}
	require.Equal(t, 100_000, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM notices"))
}
