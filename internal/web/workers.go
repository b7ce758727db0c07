package web

import (
	"github.com/a-h/templ"
)

func (v *visit) workers() error {
	o, err := v.read()
	if err != nil {
		return err
	}
	return v.show(page{title: "Workers", nav: "workers"}, workersPage(o))
}

func (v *visit) workersLive() error {
	return v.live(func() (templ.Component, error) {
		o, err := v.read()
		return workerTable(o, true), err
	})
}
