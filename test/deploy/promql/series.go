package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// series are those of one Case, in memory. It is a storage.Queryable, and a storage.Querier of all times.
type series struct {
	all    []storage.Series
	newest int64 // of all samples, milliseconds
}

// load reads series in the notation of Prometheus' rule tests. The first sample is at the interval's first multiple.
func load(p parser.Parser, described []string) (*series, error) {
	s := &series{}
	for _, text := range described {
		set, values, err := p.ParseSeriesDesc(text)
		if err != nil {
			return nil, fmt.Errorf("parse the series %s: %w", text, err)
		}
		var samples []chunks.Sample
		for i, value := range values {
			if at := int64(i+1) * interval.Milliseconds(); !value.Omitted {
				samples = append(samples, sample{at, value.Value})
				s.newest = max(s.newest, at)
			}
		}
		s.all = append(s.all, storage.NewListSeries(set, samples))
	}
	slices.SortFunc(s.all, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	return s, nil
}

// times are those at which there are samples.
func (s *series) times() (all []time.Time) {
	for at := interval.Milliseconds(); at <= s.newest; at += interval.Milliseconds() {
		all = append(all, time.UnixMilli(at))
	}
	return all
}

// Querier is of all times: the engine looks at those that it wants.
func (s *series) Querier(_, _ int64) (storage.Querier, error) { return s, nil }

// Select returns the series that match, sorted.
func (s *series) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	var matching []storage.Series
	for _, one := range s.all {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(one.Labels().Get(m.Name)) }) {
			matching = append(matching, one)
		}
	}
	return &set{left: matching}
}

// LabelValues has none: expressions do not ask for them.
func (*series) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

// LabelNames has none: expressions do not ask for them.
func (*series) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

// Close has nothing to close.
func (*series) Close() error { return nil }

// set hands series out one by one.
type set struct {
	left []storage.Series
	now  storage.Series
}

func (s *set) Next() bool {
	if len(s.left) == 0 {
		return false
	}
	s.now, s.left = s.left[0], s.left[1:]
	return true
}

func (s *set) At() storage.Series              { return s.now }
func (*set) Err() error                        { return nil }
func (*set) Warnings() annotations.Annotations { return nil }

// sample is a number at a time.
type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                    { return s.at }
func (sample) ST() int64                     { return 0 }
func (s sample) F() float64                  { return s.value }
func (sample) H() *histogram.Histogram       { return nil }
func (sample) FH() *histogram.FloatHistogram { return nil }
func (sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample         { return s }
