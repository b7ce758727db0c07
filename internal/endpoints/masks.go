package endpoints

import (
	"maps"
	"slices"
	"strings"

	"rubato/internal/auditlog"
	"rubato/internal/errs"
)

// Unmask returns headers with stored values in place of masked ones, so that a configuration can be
// read, edited and stored again. A mask stands for the value of the same header if its name looks
// secret; stored is nil if nothing is stored. The faults name each mask that stands for no value,
// which becomes empty. field returns the name of the field of a header.
func Unmask(headers, stored map[string]string, field func(name string) string) (whole map[string]string, bad []errs.Field) {
	whole = maps.Clone(headers)
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if headers[name] != auditlog.Mask {
			continue
		}
		value, known := stored[name]
		if known = known && auditlog.Secret(name); !known {
			value = ""
			bad = append(bad, errs.Field{
				Field: field(name), Code: "masked_value",
				Message: "is the mask that answers show in place of a secret, and no value is stored that it could stand for; send the real value",
			})
		}
		whole[name] = value
	}
	return whole, bad
}

// SecretsInClear warns about headers that look like secrets but are literals. They are masked in
// answers and in the audit log, but the database, its backups and replicas hold them in clear.
// field is the place of the headers, such as headers.
func SecretsInClear(field string, headers map[string]string) (list []errs.Field) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if value := headers[name]; auditlog.Secret(name) && value != "" && !strings.Contains(value, "{{") {
			list = append(list, errs.Field{
				Field: field + "." + name, Code: "secret_in_clear",
				Message: `is stored as it is; keep it with PUT /v1/secrets/{name} and write {{secret "name"}} here`,
			})
		}
	}
	return list
}
