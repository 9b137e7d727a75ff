package main

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gormflake/gormflake/generator"
)

var presets = map[string]func() generator.Layout{
	"standard":       generator.Standard,
	"twitter":        generator.Twitter,
	"newlife":        generator.NewLife,
	"hetu":           generator.HeTu,
	"javascriptsafe": generator.JavaScriptSafe,
}

// layoutFlags choose a preset, and may move its epoch.
type layoutFlags struct{ preset, epoch string }

func (f *layoutFlags) register(set *pflag.FlagSet) {
	set.StringVar(&f.preset, "layout", "standard", "layout of the ids: "+presetNames())
	set.StringVar(&f.epoch, "epoch", "", "another epoch for the layout, such as 2020-01-01T00:00:00Z")
}

func (f *layoutFlags) layout() (generator.Layout, error) {
	preset, ok := presets[strings.ToLower(f.preset)]
	if !ok {
		return generator.Layout{}, usagef("--layout wants one of %s, got %q", presetNames(), f.preset)
	}
	layout := preset()
	if f.epoch != "" {
		epoch, err := parseTime(f.epoch, time.UTC)
		if err != nil {
			return generator.Layout{}, err
		}
		layout.Epoch = epoch
	}
	return layout, layout.Validate()
}

func presetNames() string { return strings.Join(slices.Sorted(maps.Keys(presets)), ", ") }

// timeForms are what times may look like; those without a zone are in the
// given one.
var timeForms = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999",
	"2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly,
}

func parseTime(s string, zone *time.Location) (time.Time, error) {
	for _, form := range timeForms {
		if t, err := time.ParseInLocation(form, s, zone); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usagef("want a time such as 2024-02-29, 2024-02-29T12:00 or 2024-02-29T12:00:00Z, got %q", s)
}

func parseZone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, usagef("--zone wants a name such as UTC or Europe/Berlin, got %q: %v", name, err)
	}
	return zone, nil
}
