package config

import (
	"errors"
	"strconv"
	"time"
)

// Names of the planner settings that code refers to.
const (
	plannerPoll     = "RUBATO_PLANNER_POLL"
	PlannerDwell    = "RUBATO_PLANNER_DWELL"
	PlannerChanges  = "RUBATO_PLANNER_CHANGES_PER_HOUR"
	PlannerAnalyses = "RUBATO_PLANNER_ANALYSES_PER_HOUR"
	PlannerSpacing  = "RUBATO_PLANNER_SPACING"
)

// Planner holds the settings of the planner.
type Planner struct {
	// Slots is the maximum number of concurrent analyses.
	Slots int
	// Poll is the interval between polls for endpoints to analyse.
	Poll time.Duration
	// Timeout bounds one analysis.
	Timeout time.Duration
	// Spacing is the minimum time between two analyses of an endpoint.
	Spacing time.Duration
	// Dwell is the minimum time between two tempo changes of an endpoint.
	Dwell time.Duration
	// ChangesPerHour and AnalysesPerHour are per endpoint.
	ChangesPerHour  int
	AnalysesPerHour int
	// Tokens is the daily token budget of all tenants together; TenantTokens is that of one tenant,
	// EndpointTokens that of one endpoint.
	Tokens         int64
	TenantTokens   int64
	EndpointTokens int64
}

// plannerSettings returns the settings of the planner.
func plannerSettings() []Setting {
	number := func(name, def, doc string, of func(*Planner) *int) Setting {
		return Setting{
			Name:    name,
			Default: def,
			Doc:     doc,
			set:     func(c *Config, v string) error { return perHour(of(&c.Planner), v) },
			show:    func(c Config) string { return strconv.Itoa(*of(&c.Planner)) },
		}
	}
	length := func(name, def, doc string, in span, of func(*Planner) *time.Duration) Setting {
		return Setting{
			Name:    name,
			Default: def,
			Doc:     doc,
			set:     func(c *Config, v string) error { return in.read(of(&c.Planner), v) },
			show:    func(c Config) string { return brief(*of(&c.Planner)) },
		}
	}
	budget := func(name, def, doc string, of func(*Planner) *int64) Setting {
		return Setting{
			Name:    name,
			Default: def,
			Doc:     doc,
			set:     func(c *Config, v string) error { return tokens(of(&c.Planner), v) },
			show:    func(c Config) string { return strconv.FormatInt(*of(&c.Planner), 10) },
		}
	}
	return []Setting{
		number("RUBATO_PLANNER_SLOTS", "4", "maximum number of concurrent analyses of one planner", func(p *Planner) *int { return &p.Slots }),
		length(plannerPoll, "1s", "interval at which a planner polls for endpoints to analyse",
			span{10 * time.Millisecond, time.Minute}, func(p *Planner) *time.Duration { return &p.Poll }),
		length("RUBATO_PLANNER_TIMEOUT", "30s", "timeout of one analysis",
			span{time.Second, 10 * time.Minute}, func(p *Planner) *time.Duration { return &p.Timeout }),
		length(PlannerSpacing, "30s", "minimum time between two analyses of an endpoint",
			span{time.Second, time.Hour}, func(p *Planner) *time.Duration { return &p.Spacing }),
		length(PlannerDwell, "1m", "minimum time between two tempo changes of an endpoint by the planner; reversing a change takes twice that",
			span{time.Second, time.Hour}, func(p *Planner) *time.Duration { return &p.Dwell }),
		number(PlannerChanges, "12", "maximum number of tempo changes of an endpoint per hour by the planner", func(p *Planner) *int { return &p.ChangesPerHour }),
		number(PlannerAnalyses, "12", "maximum number of analyses of an endpoint per hour", func(p *Planner) *int { return &p.AnalysesPerHour }),
		budget("RUBATO_PLANNER_TOKENS", "5000000", "daily token budget of models (UTC), for all tenants together; when it is used up, endpoints run at their baselines",
			func(p *Planner) *int64 { return &p.Tokens }),
		budget("RUBATO_PLANNER_TENANT_TOKENS", "1000000", "daily token budget of one tenant", func(p *Planner) *int64 { return &p.TenantTokens }),
		budget("RUBATO_PLANNER_ENDPOINT_TOKENS", "100000", "daily token budget of one endpoint", func(p *Planner) *int64 { return &p.EndpointTokens }),
	}
}

// maxPerHour is once per second.
const maxPerHour = 3600

func perHour(target *int, value string) error { return countUpTo(maxPerHour, target, value) }

func tokens(target *int64, value string) error {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 {
		return errors.New("must be a whole number, 0 or greater")
	}
	*target = n
	return nil
}
