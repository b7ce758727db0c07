package web

import (
	"cmp"

	"rubato/internal/contract"
)

// formGroup is a part of the form with a legend.
type formGroup struct {
	name string
	rows []formRow
}

// formRow are fields that stand side by side.
type formRow struct {
	name   string // of the row; empty: it has one field
	when   string // the baseline that it belongs to; empty: both
	fields []contract.Field
}

// formGroups returns the parts of the form in their order.
func formGroups() (groups []formGroup) {
	for _, field := range contract.Fields() {
		if len(groups) == 0 || groups[len(groups)-1].name != field.Group {
			groups = append(groups, formGroup{name: field.Group})
		}
		group := &groups[len(groups)-1]
		if last := len(group.rows) - 1; last >= 0 && field.Row != "" && group.rows[last].name == field.Row {
			group.rows[last].fields = append(group.rows[last].fields, field)
			continue
		}
		group.rows = append(group.rows, formRow{
			name:   field.Row,
			when:   field.When,
			fields: []contract.Field{field},
		})
	}
	return groups
}

// choosesBaseline reports whether the kind of baseline is chosen in a part: its rows depend on it.
func (g formGroup) choosesBaseline() bool {
	for _, row := range g.rows {
		if row.when != "" {
			return true
		}
	}
	return false
}

// class returns the classes of the element around a row; empty: it needs none.
func (r formRow) class() string {
	class := ""
	if r.name != "" {
		class = "fields row-" + r.name
	}
	if r.when != "" {
		class += " when-" + r.when
	}
	return class
}

// placeholder returns the placeholder of an empty input: an example, otherwise the default.
func placeholder(field contract.Field) string {
	return cmp.Or(field.Placeholder, fieldText(field, field.Initial))
}
