package web

import (
	"time"

	"github.com/a-h/templ"

	"rubato/client"
)

func (v *pageRequest) workers() error {
	list, now, err := v.workerList()
	if err != nil {
		return err
	}
	return v.show(page{title: "Workers", nav: "workers"}, workersPage(list, now))
}

func (v *pageRequest) workersLive() error {
	return v.live(func() (templ.Component, error) {
		list, now, err := v.workerList()
		return workerTable(list, now, true), err
	})
}

// workerList returns the workers and the database's time.
func (v *pageRequest) workerList() ([]client.Worker, time.Time, error) {
	var list client.WorkerList
	err := v.get("/v1/workers", nil, &list)
	return list.Items, list.At, err
}
