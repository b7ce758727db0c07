package config

import (
	"errors"
	"strconv"
	"time"
)

// The names that code asks for by name.
const (
	plannerPoll     = "RUBATO_PLANNER_POLL"
	PlannerDwell    = "RUBATO_PLANNER_DWELL"
	PlannerChanges  = "RUBATO_PLANNER_CHANGES_PER_HOUR"
	PlannerAnalyses = "RUBATO_PLANNER_ANALYSES_PER_HOUR"
	PlannerSpacing  = "RUBATO_PLANNER_SPACING"
)

// Planner is what the planner follows.
type Planner struct {
	Slots           int           // analyses under way at once
	Poll            time.Duration // between looks for what needs analysis
	Timeout         time.Duration // of one analysis
	Spacing         time.Duration // least time between two analyses of an endpoint
	Dwell           time.Duration // least time between two changes of an endpoint's tempo
	ChangesPerHour  int           // of an endpoint
	AnalysesPerHour int           // of an endpoint
	Tokens          int64         // that models may use in a day, of all tenants together
	TenantTokens    int64         // of a tenant
	EndpointTokens  int64         // of an endpoint
}

// plannerSettings returns the settings of the planner.
func plannerSettings() []Setting {
	number := func(name, def, doc string, of func(*Planner) *int) Setting {
		return Setting{
			Name: name, Default: def, Doc: doc,
			set:  func(c *Config, v string) error { return perHour(of(&c.Planner), v) },
			show: func(c Config) string { return strconv.Itoa(*of(&c.Planner)) },
		}
	}
	length := func(name, def, doc string, in span, of func(*Planner) *time.Duration) Setting {
		return Setting{
			Name: name, Default: def, Doc: doc,
			set:  func(c *Config, v string) error { return in.read(of(&c.Planner), v) },
			show: func(c Config) string { return brief(*of(&c.Planner)) },
		}
	}
	budget := func(name, def, doc string, of func(*Planner) *int64) Setting {
		return Setting{
			Name: name, Default: def, Doc: doc,
			set:  func(c *Config, v string) error { return tokens(of(&c.Planner), v) },
			show: func(c Config) string { return strconv.FormatInt(*of(&c.Planner), 10) },
		}
	}
	return []Setting{
		number("RUBATO_PLANNER_SLOTS", "4", "how many analyses one planner has under way at once", func(p *Planner) *int { return &p.Slots }),
		length(plannerPoll, "1s", "how often a planner looks for endpoints that need analysis",
			span{10 * time.Millisecond, time.Minute}, func(p *Planner) *time.Duration { return &p.Poll }),
		length("RUBATO_PLANNER_TIMEOUT", "30s", "how long one analysis may take",
			span{time.Second, 10 * time.Minute}, func(p *Planner) *time.Duration { return &p.Timeout }),
		length(PlannerSpacing, "30s", "the least time between two analyses of an endpoint",
			span{time.Second, time.Hour}, func(p *Planner) *time.Duration { return &p.Spacing }),
		length(PlannerDwell, "1m", "the least time between two changes of an endpoint's tempo by the planner; twice that to turn back",
			span{time.Second, time.Hour}, func(p *Planner) *time.Duration { return &p.Dwell }),
		number(PlannerChanges, "12", "how often an hour the planner may change the tempo of an endpoint", func(p *Planner) *int { return &p.ChangesPerHour }),
		number(PlannerAnalyses, "12", "how often an hour an endpoint is analysed at most", func(p *Planner) *int { return &p.AnalysesPerHour }),
		budget("RUBATO_PLANNER_TOKENS", "5000000", "how many tokens models may use in a day (UTC), of all tenants together; baselines go on without",
			func(p *Planner) *int64 { return &p.Tokens }),
		budget("RUBATO_PLANNER_TENANT_TOKENS", "1000000", "how many of them one tenant may use", func(p *Planner) *int64 { return &p.TenantTokens }),
		budget("RUBATO_PLANNER_ENDPOINT_TOKENS", "100000", "how many of them one endpoint may use", func(p *Planner) *int64 { return &p.EndpointTokens }),
	}
}

// maxPerHour is once a second.
const maxPerHour = 3600

func perHour(target *int, value string) error { return countUpTo(maxPerHour, target, value) }

func tokens(target *int64, value string) error {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 {
		return errors.New("must be a whole number that is not negative")
	}
	*target = n
	return nil
}
