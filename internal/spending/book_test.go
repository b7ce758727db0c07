package spending_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/errs"
	"rubato/internal/spending"
)

func TestMostSpecificBudgetCounts(t *testing.T) {
	t.Parallel()
	mine, other := [16]byte{1}, [16]byte{2}
	names := func(list ...string) *spending.Book {
		var budgets []spending.Budget
		for _, name := range list {
			budgets = append(budgets, spending.Budget{TenantID: mine, Name: name})
		}
		return spending.NewBook(budgets)
	}
	labels := map[string]string{"team": "shop", "app": "cart"}
	for want, book := range map[string]*spending.Book{
		"tenant":            names("tenant", "host:b.example", "label:team=crm"),
		"host:a.example:81": names("tenant", "host:a.example:81", "host:a.example"),
		"label:team=shop":   names("tenant", "host:a.example:81", "label:team=shop"),
		"label:app=cart":    names("label:team=shop", "label:app=cart"),
	} {
		require.Equal(t, want, book.For(mine, "a.example:81", labels).Name)
		require.Nil(t, book.For(other, "a.example:81", labels))
	}
	require.Nil(t, names("host:b.example").For(mine, "a.example", nil))
	require.Nil(t, (*spending.Book)(nil).For(mine, "a.example", nil))
	require.False(t, (*spending.Book)(nil).About(mine))
}

func TestCheckNamesEveryBadField(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"tenant", "host:shop.example.com", "host:shop.example.com:8443", "label:team=shop", "label:team="} {
		require.NoError(t, spending.Check(name, "600/h"), name)
	}
	for _, name := range []string{"", "tenants", "host:", "host:Shop.example.com", "host:a/b", "label:team", "label:=shop", "label:a=\n", "label:a=" + strings.Repeat("x", 400)} {
		fields := errs.FieldsOf(spending.Check(name, "600"))
		require.Len(t, fields, 2, name)
		require.Equal(t, "name", fields[0].Field)
		require.Equal(t, "budget", fields[1].Field)
	}
}

func TestCounterLosesNothing(t *testing.T) {
	t.Parallel()
	var c spending.Counter
	require.Empty(t, c.Take())
	key := spending.Key{Name: "tenant"}
	c.Add(key, 2)
	taken := c.Take()
	c.Add(key, 3)
	c.PutBack(taken)
	require.Equal(t, map[spending.Key]int64{key: 5}, c.Take())
}
