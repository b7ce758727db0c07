package main

import (
	"encoding/json"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"rubato/internal/contract"
)

// printedMember is a member of every endpoint that the server prints. A configuration never has it,
// so it tells the two apart: in a configuration that was written by hand, a read-only field is a
// mistake that the server reports.
const printedMember = "createdAt"

// headerMask is shown by the server in place of the value of a secret header.
const headerMask = "***"

// readEndpoint returns the JSON of an endpoint in a file. It removes the read-only fields of an
// endpoint that the server printed.
func (s *session) readEndpoint(name string) (json.RawMessage, error) {
	text, err := s.readObject(name)
	if err != nil {
		return nil, err
	}
	return writable(text)
}

// printedFields returns the configuration in an endpoint that the server printed; nil: the text is
// other JSON.
func printedFields(text json.RawMessage) map[string]json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil || members[printedMember] == nil {
		return nil
	}
	for _, name := range contract.ReadOnly() {
		delete(members, name)
	}
	return members
}

// writable returns the configuration in an endpoint that the server printed, and other JSON
// unchanged.
func writable(text json.RawMessage) (json.RawMessage, error) {
	members := printedFields(text)
	if members == nil {
		return text, nil
	}
	return json.Marshal(members)
}

// editable is writable for an edit. It leaves out masked headers, because an edit keeps the value
// of a header that it does not name.
func editable(text json.RawMessage) (json.RawMessage, error) {
	members := printedFields(text)
	if members == nil {
		return text, nil
	}
	var headers map[string]any
	if json.Unmarshal(members["headers"], &headers) == nil { // Otherwise there are none, or the server refuses them.
		maps.DeleteFunc(headers, func(_ string, value any) bool { return value == headerMask })
		named, err := json.Marshal(headers)
		if err != nil {
			return nil, err
		}
		members["headers"] = named
	}
	return json.Marshal(members)
}

// keepWritable is writable for YAML. The id stays, because it names the endpoint that is replaced.
func keepWritable(object *yaml.Node) {
	var kept []*yaml.Node
	printed := false
	for i := 0; i < len(object.Content); i += 2 {
		name := object.Content[i].Value
		printed = printed || name == printedMember
		if name == "id" || !slices.Contains(contract.ReadOnly(), name) {
			kept = append(kept, object.Content[i], object.Content[i+1])
		}
	}
	if printed {
		object.Content = kept
	}
}
