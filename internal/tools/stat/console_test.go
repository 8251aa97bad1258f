// SPDX-License-Identifier: BSD-2-Clause

package stat

import (
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
	"text/template"
)

var updateConsole = flag.Bool("update-console", false, "write packaging/prometheus.html anew from packaging/grafana.json")

const console = "../../../packaging/prometheus.html"

// consolePage is the dashboard as a console template of Prometheus 2, which draws it itself. Its
// delimiters differ from those of the template that it becomes.
var consolePage = template.Must(template.New("console").Delims("<%", "%>").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Verbena</title>
{{ template "prom_console_head" }}
<style>
body { padding: 16px 24px }
main { display: grid; grid-template-columns: 1fr 1fr; gap: 12px 32px }
h5 { margin: 0 0 4px 30px; font-size: 16px }
</style>
</head>
<body>
<h3>Verbena</h3>
{{ template "prom_graph_timecontrol" . }}
<main>
<%- range $i, $p := .Panels %>
<section><h5><% .Title %></h5><div id="panel<% $i %>"></div></section>
<%- end %>
</main>
<script>
const panels = <% .JSON %>
const width = document.querySelector('section').clientWidth - 60
panels.forEach((p, i) => new PromConsole.Graph({
  node: document.querySelector('#panel' + i), width, height: 130, min: 0, xTitle: '',
  expr: p.expr, yTitle: p.unit, yAxisTicks: 4,
  name: p.name.map(text => metric => text.replace(/{(\w+)}/g, (_, label) => metric[label])),
  yAxisFormatter: y => y ? PromConsole.NumberFormatter.humanize(y) : '' }))
</script>
</body>
</html>
`))

// consoleOf returns the dashboard of Grafana as a console template.
func consoleOf(t *testing.T, grafana []byte) string {
	t.Helper()
	var d struct {
		Panels []struct {
			Title       string
			FieldConfig struct{ Defaults struct{ Unit string } }
			Targets     []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(grafana, &d); err != nil {
		t.Fatal(err)
	}
	type panel struct {
		Expr []string `json:"expr"`
		Name []string `json:"name"`
		Unit string   `json:"unit"`
	}
	units := map[string]string{"Bps": "B/s", "pps": "packets/s", "s": "s", "bytes": "B", "short": ""}
	label := regexp.MustCompile(`{{(\w+)}}`)
	var panels []panel
	for _, p := range d.Panels {
		unit, known := units[p.FieldConfig.Defaults.Unit]
		if !known {
			t.Fatalf("%s: a unit %q", p.Title, p.FieldConfig.Defaults.Unit)
		}
		drawn := panel{Unit: unit}
		for _, x := range p.Targets {
			drawn.Expr = append(drawn.Expr, strings.NewReplacer(`{device=~"$device"}`, "", "$__rate_interval", "1m").Replace(x.Expr))
			drawn.Name = append(drawn.Name, label.ReplaceAllString(x.LegendFormat, "{$1}"))
		}
		panels = append(panels, drawn)
	}
	var list strings.Builder
	e := json.NewEncoder(&list)
	e.SetIndent("", " ")
	e.SetEscapeHTML(false)
	if err := e.Encode(panels); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := consolePage.Execute(&b, map[string]any{"Panels": d.Panels, "JSON": strings.TrimSpace(list.String())}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Both dashboards show the same.
func TestConsoleIsTheDashboard(t *testing.T) {
	grafana, err := os.ReadFile(dashboard)
	if err != nil {
		t.Fatal(err)
	}
	want := consoleOf(t, grafana)
	if *updateConsole {
		if err := os.WriteFile(console, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(console)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("packaging/prometheus.html is not what packaging/grafana.json says: go test ./internal/tools/stat -run TestConsole -update-console")
	}
}
