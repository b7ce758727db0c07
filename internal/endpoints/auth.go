package endpoints

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"rubato/internal/errs"
	"rubato/internal/template"
)

// authField is a text field of an [Auth].
type authField struct {
	name, value string
	// secret requires a reference to a secret.
	secret bool
	// literal forbids templates.
	literal bool
}

// texts returns all text fields except the scopes.
func (a *Auth) texts() []authField {
	return []authField{
		{name: "username", value: a.Username},
		{
			name:   "password",
			value:  a.Password,
			secret: true,
		},
		{
			name:   "token",
			value:  a.Token,
			secret: true,
		},
		{
			name:    "header",
			value:   a.Header,
			literal: true,
		},
		{
			name:   "value",
			value:  a.Value,
			secret: true,
		},
		{
			name:    "tokenUrl",
			value:   a.TokenURL,
			literal: true,
		},
		{name: "clientId", value: a.ClientID},
		{
			name:   "clientSecret",
			value:  a.ClientSecret,
			secret: true,
		},
		{
			name:    "audience",
			value:   a.Audience,
			literal: true,
		},
	}
}

// templated returns the text fields that may hold templates.
func (a *Auth) templated() []authField {
	return slices.DeleteFunc(a.texts(), func(f authField) bool { return f.literal })
}

// needs returns the required and the optional fields of the type; nil for an unknown type.
func (a *Auth) needs() (must, may []string) {
	switch a.Type {
	case AuthBasic:
		return []string{"username", "password"}, nil
	case AuthBearer:
		return []string{"token"}, nil
	case AuthAPIKey:
		return []string{"header", "value"}, nil
	case AuthOAuth2:
		return []string{"tokenUrl", "clientId", "clientSecret"}, []string{"scopes", "audience"}
	default:
		return nil, nil
	}
}

// header returns the name of the header that carries the credentials.
func (a *Auth) header() string {
	if a.Type == AuthAPIKey {
		return http.CanonicalHeaderKey(a.Header)
	}
	return "Authorization"
}

// checkAuth returns the faults of the auth of a spec.
func (v *Validator) checkAuth(s *Spec) []errs.Field {
	a := s.Auth
	if a == nil {
		return nil
	}
	must, may := a.needs()
	if must == nil {
		return []errs.Field{{
			Field:   "auth.type",
			Code:    "invalid_value",
			Message: "must be one of basic, bearer, apiKey, oauth2",
		}}
	}
	var bad []errs.Field
	for _, f := range a.texts() {
		if fault := a.checkText(f, s.Labels, must, may); fault.Code != "" {
			fault.Field = "auth." + f.name
			bad = append(bad, fault)
		}
	}
	for _, fault := range slices.Concat(a.checkScopes(), v.checkAuthTarget(a)) {
		if !slices.ContainsFunc(bad, func(f errs.Field) bool { return f.Field == fault.Field }) { // One fault per field is enough.
			bad = append(bad, fault)
		}
	}
	if own := s.headerNamed(a.header()); s.Headers[own] != "" {
		bad = append(bad, errs.Field{
			Field:   "headers." + own,
			Code:    "auth_conflict",
			Message: "is set by auth as well; leave one of the two out",
		})
	}
	return bad
}

// checkText checks one text field of an auth by itself.
func (a *Auth) checkText(f authField, labels map[string]string, must, may []string) errs.Field {
	options := template.Options{Field: template.Header, Labels: labels}
	switch {
	case f.value == "" && slices.Contains(must, f.name):
		return errs.Field{Code: "required", Message: fmt.Sprintf("must be given: %s needs %s", a.Type, strings.Join(must, ", "))}
	case f.value == "":
		return errs.Field{}
	case !slices.Contains(must, f.name) && !slices.Contains(may, f.name):
		return errs.Field{Code: "auth_field", Message: a.unknown()}
	case len(f.value) > maxURLBytes:
		return errs.Field{Code: "too_long", Message: fmt.Sprintf("must be at most %d bytes long", maxURLBytes)}
	case !isText(f.value):
		return errs.Field{Code: "invalid_characters", Message: unreadable}
	case f.literal && template.Is(f.value):
		return errs.Field{Code: codeTemplate, Message: "must be literal, without templates"}
	case f.secret && !namesSecret(f.value, options):
		return errs.Field{Code: "secret_required", Message: secretRequired}
	case f.name == "username" && strings.Contains(literals(f.value, options), ":"):
		return errs.Field{Code: "invalid_characters", Message: "must hold no colon (RFC 7617)"}
	}
	return errs.Field{}
}

const secretRequired = `must hold a reference to a secret, such as {{secret "api-token"}}, so that it is never stored in the clear; ` +
	`store the secret first: PUT /v1/secrets/api-token, or rubato secrets set api-token`

// namesSecret reports whether a text refers to a secret. It also returns true for an unparsable
// text, because its syntax faults are reported instead.
func namesSecret(text string, o template.Options) bool {
	parsed, faults := template.Parse(text, o)
	return len(faults) > 0 || parsed != nil && len(parsed.Secrets()) > 0
}

// literals returns a text without its templates.
func literals(text string, o template.Options) string {
	parsed, _ := template.Parse(text, o)
	if parsed == nil {
		return text
	}
	return parsed.Sample("")
}

// unknown describes a field that the type does not have. It mentions null, because a patch that
// omits a field keeps it.
func (a *Auth) unknown() string {
	return fmt.Sprintf("is not a field of %s; leave it out, or set it to null to clear it", a.Type)
}

func (a *Auth) checkScopes() []errs.Field {
	var bad []errs.Field
	if len(a.Scopes) > 0 && a.Type != AuthOAuth2 {
		bad = append(bad, errs.Field{
			Field:   "auth.scopes",
			Code:    "auth_field",
			Message: a.unknown(),
		})
	}
	if len(a.Scopes) > 32 {
		bad = append(bad, errs.Field{
			Field:   "auth.scopes",
			Code:    "too_many",
			Message: "must have at most 32 entries",
		})
	}
	for i, scope := range a.Scopes {
		if scope == "" || len(scope) > 255 || strings.ContainsFunc(scope, notScope) {
			bad = append(bad, errs.Field{
				Field: fmt.Sprintf("auth.scopes[%d]", i), Code: "invalid_characters",
				Message: `must be 1 to 255 printable ASCII characters without spaces, " and \ (RFC 6749)`,
			})
		}
	}
	return bad
}

func notScope(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }

// checkAuthTarget checks the destination of the credentials.
func (v *Validator) checkAuthTarget(a *Auth) []errs.Field {
	switch a.Type {
	case AuthAPIKey:
		if f := v.targets.CheckHeader(a.Header, ""); f != nil {
			return []errs.Field{{
				Field:   "auth.header",
				Code:    f.Code,
				Message: f.Message,
			}}
		}
	case AuthOAuth2:
		if f := v.targets.CheckURL(a.TokenURL); f != nil {
			return []errs.Field{{
				Field:   "auth.tokenUrl",
				Code:    f.Code,
				Message: f.Message,
			}}
		}
	case AuthBasic, AuthBearer:
	}
	return nil
}

// renderAuth renders the credentials into the request.
func (s *RequestTemplate) renderAuth(r *renderer, out *Request) {
	a := s.spec.Auth
	if a == nil {
		return
	}
	text := func(name, literal string) string { return r.header("auth."+name, s.auth[name], literal) }
	switch a.Type {
	case AuthBasic:
		username, password := text("username", a.Username), text("password", a.Password)
		if strings.Contains(username, ":") && r.err == nil {
			r.err = errors.New("auth.username: a value holds a colon, which RFC 7617 does not allow")
		}
		credentials := base64.StdEncoding.EncodeToString([]byte(username + ":" + password))
		out.Header["Authorization"], out.Sensitive = "Basic "+credentials, []string{credentials}
	case AuthBearer:
		out.Header["Authorization"] = "Bearer " + text("token", a.Token)
	case AuthAPIKey:
		out.Header[a.header()] = text("value", a.Value)
	case AuthOAuth2:
		out.OAuth2 = &Grant{
			TokenURL:     a.TokenURL,
			ClientID:     text("clientId", a.ClientID),
			ClientSecret: text("clientSecret", a.ClientSecret),
			Audience:     a.Audience,
			Scopes:       a.Scopes,
		}
	}
}

// authWarnings warns about credentials that are sent without TLS.
func (s Spec) authWarnings() []errs.Field {
	if s.Auth == nil {
		return nil
	}
	for field, target := range map[string]string{"url": s.URL, "auth.tokenUrl": s.Auth.TokenURL} {
		if strings.HasPrefix(strings.ToLower(target), "http://") {
			return []errs.Field{{
				Field:   field,
				Code:    "credentials_in_clear",
				Message: "is called without TLS, so the credentials can be read on the network; use https",
			}}
		}
	}
	return nil
}
