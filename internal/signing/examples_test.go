package signing

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/secrets"
)

// attempt is a request as a receiver sees it, and whether it must accept it.
type attempt struct {
	Name    string            `json:"name"`
	Secret  string            `json:"secret"`
	Headers map[string]string `json:"headers"` // in lower case
	Body    string            `json:"body"`    // base64
	Now     int64             `json:"now"`     // seconds since 1970
	accept  bool
}

// attempts are requests that receivers must judge: some signed by Rubato, others changed or
// replayed.
func attempts(t *testing.T) []attempt {
	t.Helper()
	older, newer, stranger := NewText(), NewText(), NewText()
	now := time.Unix(1_700_000_000, 0)
	body := []byte("{\"name\":\"Zoë\",\"n\":1}\n")
	sign := func(keys ...secrets.Text) map[string]string {
		header, err := Sign(Message{ID: "run_0193466f-2a10-8c3e-9d41-5a2f6c7d8e90", At: now, Body: body}, keys)
		require.NoError(t, err)
		return map[string]string{
			"webhook-id": header.Get(HeaderID), "webhook-timestamp": header.Get(HeaderTimestamp), "webhook-signature": header.Get(HeaderSignature),
		}
	}
	of := func(name string, accept bool, change func(*attempt)) attempt {
		a := attempt{
			Name: name, Secret: newer.Reveal(), Headers: sign(newer, older), Body: base64.StdEncoding.EncodeToString(body),
			Now: now.Unix(), accept: accept,
		}
		change(&a)
		return a
	}
	set := func(header, value string) func(*attempt) {
		return func(a *attempt) { a.Headers[header] = value }
	}
	return []attempt{
		of("as it is", true, func(*attempt) {}),
		of("known by the older key", true, func(a *attempt) { a.Secret = older.Reveal() }),
		of("signed under one key", true, func(a *attempt) { a.Headers = sign(newer) }),
		of("four minutes old", true, func(a *attempt) { a.Now += 240 }),
		of("an empty body", true, func(a *attempt) { body = nil; a.Headers = sign(newer); a.Body = "" }),
		of("another key", false, func(a *attempt) { a.Secret = stranger.Reveal() }),
		of("another body", false, func(a *attempt) { a.Body = base64.StdEncoding.EncodeToString([]byte("{}")) }),
		of("another id", false, set("webhook-id", "run_other")),
		of("another time", false, set("webhook-timestamp", strconv.FormatInt(now.Unix()+1, 10))),
		of("no time", false, set("webhook-timestamp", "soon")),
		of("an odd time", false, set("webhook-timestamp", "1e9")),
		of("six minutes old", false, func(a *attempt) { a.Now += 360 }),
		of("from the future", false, func(a *attempt) { a.Now -= 360 }),
		of("no id", false, func(a *attempt) { delete(a.Headers, "webhook-id") }),
		of("no signature", false, func(a *attempt) { delete(a.Headers, "webhook-signature") }),
		of("another version", false, func(a *attempt) { a.Headers["webhook-signature"] = "v2" + a.Headers["webhook-signature"][2:] }),
		of("garbage", false, set("webhook-signature", "v1,%%% v1, v1 é")),
	}
}

// example returns the code of a language in the guide.
func example(t *testing.T, language string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/guides/verify-signatures.md")
	require.NoError(t, err)
	found := regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
	require.Len(t, found, 1, language)
	return found[0][1]
}

// judge runs a program with the attempts as JSON on its standard input. It must write which it
// accepts, as a JSON array.
func judge(t *testing.T, command ...string) {
	t.Helper()
	list := attempts(t)
	text, err := json.Marshal(list)
	require.NoError(t, err)
	program := exec.CommandContext(t.Context(), command[0], command[1:]...)
	program.Env = append(os.Environ(), "CGO_ENABLED=0") // Without it, Go compiles its standard library again.
	var complaint bytes.Buffer
	program.Stdin, program.Stderr = bytes.NewReader(text), &complaint
	out, err := program.Output()
	require.NoError(t, err, complaint.String())
	var accepted []bool
	require.NoError(t, json.Unmarshal(out, &accepted), "%s", out)
	require.Len(t, accepted, len(list))
	for i, a := range list {
		require.Equal(t, a.accept, accepted[i], a.Name)
	}
}

// write writes files into a folder of the test's own, which it returns.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

// interpreter returns the path of a program, or skips the test loudly where it is not there.
func interpreter(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("NOT TESTED: %s is not installed, so the example of the guide for it was not run", name) //nolint:forbidigo // A developer's machine need not have interpreters of other languages.
	}
	return path
}

func TestExampleInGoVerifies(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"go.mod": "module receiver\n\ngo 1.21\n", "verify.go": example(t, "go"), "main.go": `package main

import (
	"encoding/json"
	"net/http"
	"os"
	"time"
)

func main() {
	var list []struct {
		Secret  string
		Headers map[string]string
		Body    []byte
		Now     int64
	}
	if err := json.NewDecoder(os.Stdin).Decode(&list); err != nil {
		panic(err)
	}
	accepted := []bool{}
	for _, a := range list {
		header := http.Header{}
		for name, value := range a.Headers {
			header.Set(name, value)
		}
		accepted = append(accepted, Verify(a.Secret, header, a.Body, time.Unix(a.Now, 0)) == nil)
	}
	if err := json.NewEncoder(os.Stdout).Encode(accepted); err != nil {
		panic(err)
	}
}
`})
	judge(t, interpreter(t, "go"), "run", "-C", dir, ".")
}

func TestExampleInPythonVerifies(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"receiver.py": example(t, "python") + `

import json
import sys

accepted = []
for a in json.load(sys.stdin):
    try:
        verify(a["secret"], a["headers"], base64.b64decode(a["body"]), a["now"])
        accepted.append(True)
    except ValueError:
        accepted.append(False)
print(json.dumps(accepted))
`})
	judge(t, interpreter(t, "python3"), filepath.Join(dir, "receiver.py"))
}

// typeNote is a type in TypeScript, as the example uses them. Without these it is JavaScript, which
// every node can run.
var typeNote = regexp.MustCompile(`(\w|\)): (?:string|number|Buffer|void|Record<string, string>)`)

func TestExampleInTypeScriptVerifies(t *testing.T) {
	t.Parallel()
	plain := typeNote.ReplaceAllString(example(t, "ts"), "$1")
	dir := write(t, map[string]string{"receiver.mjs": plain + `
import { readFileSync } from "node:fs";

const accepted = JSON.parse(readFileSync(0, "utf8")).map((a) => {
  try {
    verify(a.secret, a.headers, Buffer.from(a.body, "base64"), a.now * 1000);
    return true;
  } catch (error) {
    if (error instanceof TypeError || error instanceof ReferenceError || error instanceof RangeError) throw error;
    return false;
  }
});
console.log(JSON.stringify(accepted));
`})
	judge(t, interpreter(t, "node"), filepath.Join(dir, "receiver.mjs"))
}
