package dev

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rubato/internal/app"
	"rubato/internal/auth"
	"rubato/internal/endpoints"
	keystore "rubato/internal/store/keys"
)

// demoEndpoints returns the endpoints of the demo, for a target at a base URL: one for each kind of
// tempo.
func demoEndpoints(base string) []endpoints.Spec {
	spec := func(key, path, description string) endpoints.Spec {
		s := endpoints.Defaults()
		s.Key, s.Name, s.URL, s.Description = key, key, base+path, description
		s.Labels = map[string]string{"demo": "true"}
		return s
	}
	heartbeat := spec("demo-heartbeat", "/heartbeat", "Runs every second.")
	heartbeat.BaselineInterval = time.Second

	prices := spec("demo-prices", "/prices", "Runs every 5 s; a hint may move it between 2 s and 10 s.")
	prices.BaselineInterval = 5 * time.Second
	prices.MinInterval, prices.MaxInterval = 2*time.Second, 10*time.Second

	report := spec("demo-report", "/report", "Runs on every minute of the clock in Berlin.")
	report.BaselineCron, report.Timezone = "* * * * *", "Europe/Berlin"

	flaky := spec("demo-flaky", "/flaky", "Fails three times out of five: watch it back off, up to 20 s, and recover.")
	flaky.BaselineInterval, flaky.MaxInterval = 2*time.Second, 20*time.Second

	orders := spec(demoOrders, "/orders", "Runs every hour, and once more after 10 s because a one-shot hint says so.")
	orders.Method, orders.Body = "POST", `{"item":"tea","count":1}`
	orders.Headers = map[string]string{"Content-Type": "application/json"}
	orders.BaselineInterval = time.Hour

	load := spec("demo-load", "/load", "Its answers change for three minutes and rest for the next three: its tempo follows, between 1 s and 10 s.")
	load.BaselineInterval, load.MinInterval, load.MaxInterval = 4*time.Second, time.Second, 10*time.Second
	// The queue differs in every answer of the rush. Without a key it would count as noise.
	load.ChangeKey = []string{"$.queue"}

	prices.Planner, load.Planner = endpoints.PlannerAct, endpoints.PlannerAct
	// These endpoints show their baselines alone.
	for _, steady := range []*endpoints.Spec{&heartbeat, &report, &flaky, &orders} {
		steady.Planner = endpoints.PlannerOff
	}
	return []endpoints.Spec{heartbeat, prices, report, flaky, orders, load}
}

// demoOrders is the key of the endpoint with a one-shot hint.
const demoOrders = "demo-orders"

const (
	demoHintDelay = 10 * time.Second
	demoHintLife  = 10 * time.Minute
)

// openDemo opens the listener of the demo's target and registers endpoints that call it, with the
// rights of an API key. Connections queue until the server runs.
func openDemo(ctx context.Context, c *app.Core, key string) (*app.Server, error) {
	l, err := app.Listen(ctx, "another port", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	who, err := keystore.NewKeys(c.DB).FindKey(ctx, auth.Hash(key))
	if err == nil {
		by := endpoints.Actor{
			TenantID: who.TenantID,
			KeyID:    who.KeyID,
			Name:     who.Name,
		}
		err = registerDemo(ctx, c.Endpoints(), by, app.BaseURL(l.Addr()))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the demo: %w", err), l.Close())
	}
	return app.NewServer(l, demoTarget(), c.Logger), nil
}

// registerDemo registers the demo's endpoints. It points those of an earlier start to the target's
// new address and keeps all other changes to them.
func registerDemo(ctx context.Context, service *endpoints.Service, by endpoints.Actor, base string) error {
	for _, spec := range demoEndpoints(base) {
		if err := registerOne(ctx, service, by, spec); err != nil {
			return fmt.Errorf("registering %s: %w", spec.Key, err)
		}
	}
	return nil
}

func registerOne(ctx context.Context, service *endpoints.Service, by endpoints.Actor, spec endpoints.Spec) error {
	found, _, err := service.List(ctx, endpoints.Filter{
		TenantID: by.TenantID,
		Key:      spec.Key,
		Limit:    1,
	})
	if err != nil {
		return err
	}
	if len(found) > 0 {
		_, _, err := service.Edit(ctx, by, found[0].ID, 0, func(stored endpoints.Spec) (endpoints.Spec, error) {
			stored.URL = spec.URL
			return stored, nil
		})
		return err
	}
	made, _, err := service.Register(ctx, by, spec)
	if err != nil || spec.Key != demoOrders {
		return err
	}
	in, life := demoHintDelay, demoHintLife
	_, _, err = service.SetOneShotHint(ctx, by, made.ID, endpoints.HintRequest{
		In:     &in,
		TTL:    &life,
		Reason: "the demo wants to see an order",
	})
	return err
}
