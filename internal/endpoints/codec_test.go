package endpoints_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
)

// drawn sets a random value of any type in a spec. Empty maps and slices stay nil, because
// [endpoints.ReadSpec] leaves them nil.
func drawn(rt *rapid.T, v reflect.Value, name string) {
	switch v.Interface().(type) {
	case time.Duration:
		v.SetInt(rapid.Int64Range(0, 1<<40).Draw(rt, name) * int64(time.Millisecond))
		return
	case time.Time:
		if rapid.Bool().Draw(rt, name+" is given") {
			v.Set(reflect.ValueOf(time.UnixMilli(rapid.Int64Range(1, 1<<42).Draw(rt, name)).UTC()))
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			drawn(rt, v.Field(i), v.Type().Field(i).Name)
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(rt, name+" is given") {
			v.Set(reflect.New(v.Type().Elem()))
			drawn(rt, v.Elem(), name)
		}
	case reflect.Map:
		for key, value := range rapid.MapOfN(rapid.String(), rapid.String(), 0, 3).Draw(rt, name) {
			if v.IsNil() {
				v.Set(reflect.MakeMap(v.Type()))
			}
			v.SetMapIndex(reflect.ValueOf(key), reflect.ValueOf(value))
		}
	case reflect.Slice:
		for range rapid.IntRange(0, 3).Draw(rt, name) {
			item := reflect.New(v.Type().Elem()).Elem()
			drawn(rt, item, name)
			v.Set(reflect.Append(v, item))
		}
	case reflect.Interface:
		v.Set(reflect.ValueOf(rapid.OneOf(rapid.String().AsAny(), rapid.Bool().AsAny(), rapid.Float64Range(-1e300, 1e300).AsAny()).Draw(rt, name)))
	case reflect.String:
		v.SetString(rapid.String().Draw(rt, name))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(rt, name))
	default:
		v.SetInt(rapid.Int64Range(-1<<31, 1<<31).Draw(rt, name))
	}
}

func TestSpecSurvivesARoundTripThroughItsDocument(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var spec endpoints.Spec
		drawn(rt, reflect.ValueOf(&spec).Elem(), "spec")
		if spec.Timezone == "" { // Both have a default that is not zero, so a stored spec always has them.
			spec.Timezone = "UTC"
		}
		if spec.Timeout == 0 {
			spec.Timeout = time.Second
		}

		direct, err := endpoints.ReadSpec(spec.Document())
		require.NoError(rt, err)
		require.Empty(rt, cmp.Diff(spec, direct))

		text, err := json.Marshal(spec)
		require.NoError(rt, err)
		var parsed endpoints.Spec
		require.NoError(rt, json.Unmarshal(text, &parsed))
		require.Empty(rt, cmp.Diff(spec, parsed))
	})
}

func TestAbsentAndNullMembersHaveTheirDefaults(t *testing.T) {
	t.Parallel()
	nulls := map[string]any{"unknown": 1}
	for name := range new(endpoints.Spec).Document() {
		nulls[name] = nil
	}
	for _, document := range []map[string]any{nil, nulls} {
		spec, err := endpoints.ReadSpec(document)
		require.NoError(t, err)
		require.Equal(t, endpoints.Defaults(), spec)
	}
}

func TestExplicitZeroIsRefusedWhereZeroMeansAbsent(t *testing.T) {
	t.Parallel()
	validator := endpoints.NewValidator(targets{})
	for name, value := range map[string]any{
		"key": "", "baselineCron": "", "timezone": "", "startAt": "0001-01-01T00:00:00+00:00", "minIntervalMs": json.Number("0"),
		"maxIntervalMs": json.Number("0"), "timeoutMs": json.Number("0"), "tls": map[string]any{"serverName": ""},
	} {
		document := map[string]any{"name": "n", "url": "https://a.example/", "baselineIntervalMs": json.Number("60000")}
		if name == "baselineCron" {
			delete(document, "baselineIntervalMs")
		}
		document[name] = value
		spec, err := endpoints.ReadSpec(document)
		require.NoError(t, err)
		err = validator.Check(endpoints.ID{1}, spec.Normalize())
		require.True(t, slices.ContainsFunc(errs.FieldsOf(err), func(f errs.Field) bool { return strings.HasPrefix(f.Field, name) }), name)
	}
}

func TestEveryMemberOfTheWrongTypeIsNamed(t *testing.T) {
	t.Parallel()
	spec, err := endpoints.ReadSpec(map[string]any{
		"name": true, "url": "https://a.example/", "jitterMs": "soon", "headers": map[string]any{"A": json.Number("1")},
		"retry": map[string]any{"maxAttempts": json.Number("1.5"), "backoffMs": json.Number("7")}, "startAt": "tomorrow",
		"successRules": []any{map[string]any{"type": "json", "value": map[string]any{}}},
	})
	require.Error(t, err)
	for _, path := range []string{"name", "jitterMs", "headers.A", "retry.maxAttempts", "startAt", "successRules[0].value"} {
		require.Contains(t, err.Error(), path+" of type")
	}
	require.Equal(t, "https://a.example/", spec.URL)
	require.Equal(t, 7*time.Millisecond, spec.Retry.Backoff)
	require.Equal(t, endpoints.Defaults().Retry.MaxAttempts, spec.Retry.MaxAttempts)
}
