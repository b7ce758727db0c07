package web

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"

	"rubato/client"
	"rubato/internal/auth"
)

func (v *pageRequest) workers() error {
	list, now, err := v.workerList()
	if err != nil {
		return err
	}
	return v.show(page{title: "Workers", nav: "workers"}, workersPage(list, now, v.operates()))
}

func (v *pageRequest) workersLive() error {
	return v.live(func() (templ.Component, error) {
		list, now, err := v.workerList()
		return workerTable(list, now, workerColumns{all: true, actions: v.operates()}), err
	})
}

// workerList returns the workers and the database's time.
func (v *pageRequest) workerList() ([]client.Worker, time.Time, error) {
	var list client.WorkerList
	err := v.get("/v1/workers", nil, &list)
	return list.Items, list.At, err
}

// workerColumns selects the columns of the table of workers.
type workerColumns struct {
	all     bool // start, version and ID too, and every row
	actions bool
}

// operates reports whether the session may give orders to workers.
func (v *pageRequest) operates() bool { return v.who.May(auth.Admin) && v.who.Operates() }

// drainWorker orders a worker to drain.
func (v *pageRequest) drainWorker() error { return v.orderWorker("/drain") }

// resumeWorker withdraws the order to drain.
func (v *pageRequest) resumeWorker() error { return v.orderWorker("/resume") }

func (v *pageRequest) orderWorker(order string) error {
	if err := v.post("/v1/workers/"+url.PathEscape(v.r.PathValue("id"))+order, "", nil, nil); err != nil {
		return err
	}
	return v.seeOther("/console/workers")
}

// tagText returns the tags of a worker for the table.
func tagText(w client.Worker) string {
	text := strings.Join(slices.Concat(w.Tags, w.Capabilities), ", ")
	if w.Exclusive {
		text += " (exclusive)"
	}
	return cmp.Or(text, "–")
}
