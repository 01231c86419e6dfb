// Command promql evaluates alerts as Prometheus does, with Prometheus' own parser and engine, over series that a test makes up. It is a
// module of its own, so that nothing else is built from Prometheus' modules.
//
// It reads one JSON array of Case from standard input and writes one JSON array of Outcome, in the same order.
//
// Callers: the tests of test/deploy, which build it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// interval is the time between two samples and between two evaluations, that of the ServiceMonitor being no longer.
const interval = 15 * time.Second

// maxInput bounds what is read.
const maxInput = 1 << 20

// Case is one alert over some series.
type Case struct {
	// Expr and For are the rule's; For may be empty.
	Expr string
	For  string
	// Series are in the notation of Prometheus' own rule tests, `name{label="value"} 0+1x10`, one sample each interval.
	Series []string
}

// Selected is what one vector selector of an expression names.
type Selected struct {
	Metric string
	// Values are the matchers' values by label, as they are written, of = and =~ as well as of != and !~.
	Values map[string]string
}

// Outcome is what there is to say of a Case. With Error there is nothing else.
type Outcome struct {
	Error    string
	Selected []Selected
	// Firing are the labels of each alert that was firing at some time.
	Firing []map[string]string
}

func main() {
	if err := run(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "promql:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, in io.Reader, out io.Writer) error {
	var cases []Case
	if err := json.NewDecoder(io.LimitReader(in, maxInput)).Decode(&cases); err != nil {
		return fmt.Errorf("read the cases: %w", err)
	}
	p := parser.NewParser(parser.Options{})
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1 << 20, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: p})
	outcomes := make([]Outcome, 0, len(cases))
	for _, c := range cases {
		outcome, err := judge(ctx, p, engine, c)
		if err != nil {
			outcome = Outcome{Error: err.Error()}
		}
		outcomes = append(outcomes, outcome)
	}
	return json.NewEncoder(out).Encode(outcomes)
}

func judge(ctx context.Context, p parser.Parser, engine *promql.Engine, c Case) (Outcome, error) {
	expr, err := p.ParseExpr(c.Expr)
	if err != nil {
		return Outcome{}, fmt.Errorf("parse the expression: %w", err)
	}
	if expr.Type() != parser.ValueTypeVector {
		return Outcome{}, fmt.Errorf("the expression is a %s, and alerts are made of vectors", expr.Type())
	}
	patience := time.Duration(0)
	if c.For != "" {
		if patience, err = time.ParseDuration(c.For); err != nil {
			return Outcome{}, fmt.Errorf("parse for: %w", err)
		}
	}
	store, err := load(p, c.Series)
	if err != nil {
		return Outcome{}, err
	}
	fired, err := firing(ctx, engine, store, c.Expr, patience)
	return Outcome{Selected: selected(expr), Firing: fired}, err
}

// selected are the vector selectors of an expression.
func selected(expr parser.Expr) (all []Selected) {
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		v, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		s := Selected{Metric: v.Name, Values: map[string]string{}}
		for _, m := range v.LabelMatchers {
			if m.Name != model.MetricNameLabel {
				s.Values[m.Name] = m.Value
			}
		}
		all = append(all, s)
		return nil
	})
	return all
}

// firing evaluates the expression at each sample's time. An alert is firing once its labels have been in every result for so long.
func firing(ctx context.Context, engine *promql.Engine, store *series, expr string, patience time.Duration) ([]map[string]string, error) {
	since, fired, found := map[string]time.Time{}, map[string]bool{}, []map[string]string{}
	for _, now := range store.times() {
		query, err := engine.NewInstantQuery(ctx, store, nil, expr, now)
		if err != nil {
			return nil, fmt.Errorf("prepare the query: %w", err)
		}
		result := query.Exec(ctx)
		vector, err := result.Vector()
		if err != nil {
			query.Close()
			return nil, fmt.Errorf("evaluate the expression: %w", err)
		}
		if len(result.Warnings) > 0 {
			query.Close()
			return nil, fmt.Errorf("evaluate the expression: %w", errors.Join(result.Warnings.AsErrors()...))
		}
		active := map[string]time.Time{}
		for _, sample := range vector {
			bare := sample.Metric.DropReserved(func(name string) bool { return name == model.MetricNameLabel })
			key := bare.String()
			if active[key] = now; !since[key].IsZero() {
				active[key] = since[key]
			}
			if now.Sub(active[key]) >= patience && !fired[key] {
				fired[key] = true
				found = append(found, bare.Map())
			}
		}
		since = active
		query.Close()
	}
	return found, nil
}
