package contract

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	described "rubato/internal/contract"
)

// The forms and the help show the defaults of the contract. They are those that the server fills
// in.
func TestDefaultsOfTheContractAreThoseOfTheServer(t *testing.T) {
	t.Parallel()
	w := setup(t)
	made := w.call(t, http.MethodPost, "/v1/endpoints", fields()).is(t, http.StatusCreated)
	for _, f := range described.Fields() {
		if f.Default != nil {
			require.Equal(t, f.Default, f.Value(made), f.Path)
		}
	}
}
