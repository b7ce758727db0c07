package errs_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/errs"
)

func TestTheCodeOfAnErrorIsThatOfTheFirstInItsTree(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	for name, tc := range map[string]struct {
		err  error
		want errs.Code
	}{
		"None":           {nil, errs.Internal},
		"Foreign":        {cause, errs.Internal},
		"Ours":           {errs.New(errs.NotFound, "", "gone"), errs.NotFound},
		"Wrapped":        {fmt.Errorf("reading: %w", errs.New(errs.Conflict, "", "busy")), errs.Conflict},
		"Joined":         {errors.Join(cause, errs.New(errs.Forbidden, "", "no")), errs.Forbidden},
		"OuterOfTwo":     {errs.Wrap(errs.New(errs.NotFound, "", "gone"), errs.Unavailable, "away"), errs.Unavailable},
		"WrappingACause": {errs.Wrap(cause, errs.Precondition, "changed"), errs.Precondition},
	} {
		require.Equal(t, tc.want, errs.CodeOf(tc.err), name)
	}
	require.ErrorIs(t, errs.Wrap(cause, errs.Unavailable, "away"), cause)
}

func TestErrorGivesCauseToLogsAndMessageToUsers(t *testing.T) {
	t.Parallel()
	e := &errs.Error{
		Code: errs.Invalid, Message: "the input breaks rules", Err: errors.New("SQLSTATE 22P02"),
		Fields: []errs.Field{{Field: "name", Code: "required", Message: "must not be empty"}, {Field: "url", Message: "is too long"}},
	}
	require.Equal(t, "the input breaks rules; name: must not be empty; url: is too long: SQLSTATE 22P02", e.Error())
	require.NotContains(t, e.Message, "SQLSTATE")
}

func TestFieldsMakeAnErrorOnlyWhereThereAreSome(t *testing.T) {
	t.Parallel()
	require.NoError(t, errs.InvalidFields(nil))
	require.NoError(t, errs.InvalidFields([]errs.Field{}))
	fields := []errs.Field{{Field: "a"}, {Field: "b"}}
	err := fmt.Errorf("checking: %w", errs.InvalidFields(fields))
	require.Equal(t, errs.Invalid, errs.CodeOf(err))
	require.Equal(t, fields, errs.FieldsOf(err))
	require.Nil(t, errs.FieldsOf(errors.New("other")))
}
