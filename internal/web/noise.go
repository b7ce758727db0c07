package web

import (
	"fmt"
	"net/http"
	"time"

	"rubato/client"
	"rubato/internal/auth"
)

// judgeNoise rejects a finding of noise, or takes the rejection back.
func (v *pageRequest) judgeNoise() error {
	if !v.who.May(auth.Write) {
		return forbidden()
	}
	id := v.r.PathValue("id")
	verdict := client.NoiseVerdict{Path: v.value("path"), State: client.NoiseState(v.value("state"))}
	if err := v.call(apiRequest{
		method: http.MethodPut,
		path:   endpointAPI(id, "/noise"),
		body:   verdict,
	}, nil); err != nil {
		return v.html(int(problemOf(err).Status), problemNotice(problemOf(err)))
	}
	if !v.fragment() {
		return v.seeOther("/console/endpoints/" + id)
	}
	d, err := v.loadEndpoint(id)
	if err != nil {
		return err
	}
	return v.part(endpointParts(d))
}

// noiseEvidence describes why a member was found to be noise.
func noiseEvidence(n client.Noise) string {
	gap := time.Duration(n.GapMs) * time.Millisecond
	return fmt.Sprintf("differed in %d successive answers, the last %s apart", n.Pairs, gap.Round(100*time.Millisecond))
}
