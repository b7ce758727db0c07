package httpapi

import (
	"context"
	"maps"
	"slices"
	"strings"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/httpapi/api"
	"rubato/internal/runs"
)

// showRequest sets the request of a run, with secrets masked, and the run that it repeats.
func (s *Server) showRequest(ctx context.Context, out *api.Run, run runs.Run) error {
	was, err := s.endpoints.PastRequest(ctx, actorOf(ctx), pastOf(run))
	if err != nil {
		return err
	}
	if was.RerunOf != [16]byte{} {
		out.RerunOf = new(runs.ID(was.RerunOf).String())
	}
	if was.Spec == nil || run.Skipped != nil {
		return nil
	}
	out.Request = new(requestAnswer(was.Spec, was.Key))
	if was.Version > 0 {
		out.Request.Version = new(was.Version)
	}
	return nil
}

// requestAnswer returns the request of a spec as users see it: with the mask in place of secrets.
func requestAnswer(s *endpoints.Spec, key string) api.RunRequest {
	out := api.RunRequest{
		Method:         s.Method,
		URL:            s.Target(),
		Headers:        map[string]string{},
		Body:           optional(s.Body),
		IdempotencyKey: key,
	}
	for name, value := range s.Headers {
		if auditlog.Secret(name) {
			value = mask
		}
		out.Headers[name] = value
	}
	if s.Auth != nil {
		out.Auth = new(string(s.Auth.Type))
	}
	if s.Sign {
		out.Sign = new(true)
	}
	out.Curl = new(curl(s, out))
	return out
}

// curl returns a request as a command of a POSIX shell. Its credentials are references to secrets,
// because their values are never shown.
func curl(s *endpoints.Spec, r api.RunRequest) string {
	args := []string{"curl", "-X", r.Method, quoted(r.URL)}
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		args = append(args, "-H", quoted(name+": "+r.Headers[name]))
	}
	args = append(args, "-H", quoted("Idempotency-Key: "+r.IdempotencyKey))
	if a := s.Auth; a != nil {
		switch a.Type {
		case endpoints.AuthBasic:
			args = append(args, "-u", quoted(a.Username+":"+a.Password))
		case endpoints.AuthBearer:
			args = append(args, "-H", quoted("Authorization: Bearer "+a.Token))
		case endpoints.AuthAPIKey:
			args = append(args, "-H", quoted(a.Header+": "+a.Value))
		case endpoints.AuthOAuth2:
			args = append(args, "-H", quoted("Authorization: Bearer "+mask))
		}
	}
	if s.Body != "" {
		args = append(args, "--data-raw", quoted(s.Body))
	}
	return strings.Join(args, " ")
}

// quoted returns a text as one word of a POSIX shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
