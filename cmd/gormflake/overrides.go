package main

import (
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gormflake/gormflake/migrate"
)

// overrideFlags spell out what a plan would otherwise refuse to decide.
type overrideFlags struct {
	mapNull, keepNull, mapEmpty, mapLabel, mapNumber, labels, accept []string
}

func (f *overrideFlags) register(set *pflag.FlagSet) {
	set.StringArrayVar(&f.mapNull, "map-null", nil, "let NULL become a value: column=false")
	set.StringArrayVar(&f.keepNull, "keep-null", nil, "let NULL stay: column")
	set.StringArrayVar(&f.mapEmpty, "map-empty", nil, "let '' become a value: column=false")
	set.StringArrayVar(&f.mapLabel, "map-label", nil, "let another text become a value: column:text=true")
	set.StringArrayVar(&f.mapNumber, "map-number", nil, "let another number become a value: column:-1=true")
	set.StringArrayVar(&f.labels, "labels", nil, "labels that don't speak for themselves, false first: column=off,on")
	set.StringArrayVar(&f.accept, "accept", nil, "an object that has been dealt with: view:name, trigger:name, routine:name")
}

func (f *overrideFlags) parse() ([]migrate.Override, error) {
	var all []migrate.Override
	for _, column := range f.keepNull {
		all = append(all, migrate.KeepNull(column))
	}
	for _, form := range []struct {
		flag   string
		values []string
		of     func(column string, v bool) migrate.Override
	}{{"map-null", f.mapNull, migrate.MapNull}, {"map-empty", f.mapEmpty, migrate.MapEmpty}} {
		for _, value := range form.values {
			column, v, ok := assignment(value)
			if !ok {
				return nil, usagef("--%s wants column=true or column=false, got %q", form.flag, value)
			}
			all = append(all, form.of(column, v))
		}
	}
	for _, value := range f.mapLabel {
		left, v, ok := assignment(value)
		column, label, hasLabel := strings.Cut(left, ":")
		if !ok || !hasLabel {
			return nil, usagef("--map-label wants column:text=true or column:text=false, got %q", value)
		}
		all = append(all, migrate.MapLabel(column, label, v))
	}
	for _, value := range f.mapNumber {
		left, v, ok := assignment(value)
		column, digits, hasNumber := strings.Cut(left, ":")
		number, err := strconv.ParseInt(digits, 10, 64)
		if !ok || !hasNumber || err != nil {
			return nil, usagef("--map-number wants column:-1=true or column:2=false, got %q", value)
		}
		all = append(all, migrate.MapNumber(column, number, v))
	}
	for _, value := range f.labels {
		column, pair, ok := strings.Cut(value, "=")
		falseLabel, trueLabel, two := strings.Cut(pair, ",")
		if !ok || !two {
			return nil, usagef("--labels wants column=off,on, false first, got %q", value)
		}
		all = append(all, migrate.Labels(column, falseLabel, trueLabel))
	}
	for _, value := range f.accept {
		kind, name, ok := strings.Cut(value, ":")
		if !ok {
			return nil, usagef("--accept wants kind:name, such as view:active_users, got %q", value)
		}
		all = append(all, migrate.Accept(kind, name))
	}
	return all, nil
}

// assignment reads something=true or something=false.
func assignment(s string) (left string, v, ok bool) {
	i := strings.LastIndexByte(s, '=')
	if i < 1 {
		return "", false, false
	}
	switch s[i+1:] {
	case "true":
		return s[:i], true, true
	case "false":
		return s[:i], false, true
	}
	return "", false, false
}
