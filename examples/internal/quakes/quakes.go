// Package quakes is the data that the examples share: 1,707 real earthquakes of
// the first week of February 2018, courtesy of the U.S. Geological Survey.
package quakes

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"
	"time"
)

//go:embed earthquakes.csv
var raw []byte

// header is what the first line of the file must say, in this order.
var header = []string{
	"event", "time_ms", "magnitude", "depth_km", "latitude", "longitude",
	"reviewed", "felt", "type", "place",
}

// Quake is one event of the feed.
type Quake struct {
	Event     string    // the USGS identifier, unique within the file
	TimeMS    int64     // Unix time of the event in milliseconds
	Time      time.Time // the same instant, in UTC
	Magnitude float64   // may be negative for very small events
	DepthKM   float64   // below sea level; negative above it
	Latitude  float64   // degrees, north positive
	Longitude float64   // degrees, east positive
	Reviewed  bool      // whether a seismologist has reviewed the event
	Felt      bool      // whether anybody reported to have felt it
	Type      string    // "earthquake", "quarry blast" and the like
	Place     string    // in words, such as "37km NNE of Amboy, Washington"
}

// Load returns all the events, oldest first. The slice is the caller's own. An
// error means that the embedded file isn't what this package expects.
func Load() ([]Quake, error) {
	r := csv.NewReader(bytes.NewReader(raw))
	r.FieldsPerRecord = len(header)
	rows, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("quakes: %w", err)
	}
	if len(rows) == 0 || !slices.Equal(rows[0], header) {
		return nil, fmt.Errorf("quakes: the first line of earthquakes.csv must be %v", header)
	}
	out := make([]Quake, 0, len(rows)-1)
	for i, row := range rows[1:] {
		q, err := parse(row)
		if err != nil {
			return nil, fmt.Errorf("quakes: line %d: %w", i+2, err)
		}
		out = append(out, q)
	}
	return out, nil
}

func parse(row []string) (q Quake, err error) {
	q = Quake{Event: row[0], Type: row[8], Place: row[9]}
	if q.TimeMS, err = strconv.ParseInt(row[1], 10, 64); err != nil {
		return q, err
	}
	q.Time = time.UnixMilli(q.TimeMS).UTC()
	for i, to := range []*float64{&q.Magnitude, &q.DepthKM, &q.Latitude, &q.Longitude} {
		if *to, err = strconv.ParseFloat(row[2+i], 64); err != nil {
			return q, fmt.Errorf("%s: %w", header[2+i], err)
		}
	}
	for i, to := range []*bool{&q.Reviewed, &q.Felt} {
		switch v := row[6+i]; v {
		case "Y":
			*to = true
		case "N":
		default:
			return q, fmt.Errorf("%s: expected Y or N, met %q", header[6+i], v)
		}
	}
	return q, nil
}
