// SPDX-License-Identifier: BSD-2-Clause

package perf

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

var rule = strings.Repeat("-", 87) + "\n"

const (
	mebibyte = 1 << 20 // perftest's MB
	gigabit  = 1e9 / 8
)

// BWRow is one line of a bandwidth table.
type BWRow struct {
	Size    int     `json:"bytes"`
	Count   int64   `json:"iterations"`
	Peak    float64 `json:"bw_peak"`
	Average float64 `json:"bw_average"`
	Unit    string  `json:"unit"`
	MsgRate float64 `json:"msg_rate_mpps"`
	// Arrived is the number of messages that the receivers got, on a service that may lose some.
	Arrived *int64 `json:"messages_arrived,omitempty"`
}

func bwRow(size int, r BWResult, gbits bool) BWRow {
	unit, name := float64(mebibyte), "MB/sec"
	if gbits {
		unit, name = gigabit, "Gb/sec"
	}
	average := r.bytesPerSecond()
	// the peak travels in whole bytes a second, which may round it below
	peak := max(float64(r.PeakBPS), average)
	return BWRow{
		Size: size, Count: r.Messages, Peak: peak / unit, Average: average / unit,
		Unit: name, MsgRate: r.messagesPerSecond() / 1e6,
	}
}

// reporter prints results as they come, or at the end.
type reporter struct {
	w    io.Writer
	o    *options
	rows []any // BWRow or LatResult

	// known when connected
	device string
	mtu    int // path MTU in bytes
}

// begin prints the lines above the results.
func (r *reporter) begin(device string, local, remote *Offer) {
	r.device, r.mtu = device, r.o.pathMTU(local.MTU, remote.MTU).Bytes()
	if r.o.format() != formatTable {
		return
	}
	o := r.o
	fmt.Fprint(r.w, rule)
	fmt.Fprintf(r.w, "                    %s\n", o.test.title())
	fmt.Fprintf(r.w, " Number of qps   : %d\t\tDevice         : %s\n", o.qps, device)
	fmt.Fprintf(r.w, " Connection type : %s\t\tTX depth       : %d\n", o.service, o.depth)
	fmt.Fprintf(r.w, " Mtu             : %d[B]\tMax inline data : %d[B]\n", r.mtu, o.inline)
	fmt.Fprintf(r.w, " Link type       : Ethernet\trdma_cm QPs    : %s\n", onOff(o.rdmacm))
	fmt.Fprint(r.w, rule)
	printOffer(r.w, " local", local)
	printOffer(r.w, " remote", remote)
	fmt.Fprint(r.w, rule)
	switch {
	case !o.test.bandwidth():
		fmt.Fprint(r.w, " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    "+
			"t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n")
	case o.gbits:
		fmt.Fprint(r.w, " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   "+
			"MsgRate[Mpps]\n")
	default:
		fmt.Fprint(r.w, " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   "+
			"MsgRate[Mpps]\n")
	}
}

func printOffer(w io.Writer, side string, o *Offer) {
	for _, q := range o.QPs {
		fmt.Fprintf(w, "%s address: QPN 0x%04x PSN 0x%06x RKey 0x%08x VAddr 0x%012x\n", side, q.QPN,
			q.PSN, o.RKey, o.Addr)
	}
	fmt.Fprintf(w, " GID: %s\n", gidText(o.GID))
}

func onOff(b bool) string {
	if b {
		return "ON"
	}
	return "OFF"
}

// bandwidth prints a line of a bandwidth test.
func (r *reporter) bandwidth(row BWRow) {
	r.rows = append(r.rows, row)
	if r.o.format() == formatTable {
		fmt.Fprintf(r.w, " %-7d    %-10d       %-7.2f            %-7.2f\t\t   %-7.6f\n", row.Size,
			row.Count, row.Peak, row.Average, row.MsgRate)
		if row.Arrived != nil && *row.Arrived < row.Count {
			fmt.Fprintf(r.w, " %d of these messages were lost\n", row.Count-*row.Arrived)
		}
	}
}

// latency prints a line of a latency test.
func (r *reporter) latency(row LatResult) {
	r.rows = append(r.rows, row)
	if r.o.format() == formatTable {
		fmt.Fprintf(r.w, " %-7d %d          %-7.2f        %-7.2f      %-7.2f  \t       %-7.2f    "+
			" \t%-7.2f\t\t%-7.2f \t\t%-7.2f\n",
			row.Size, row.Count, row.Min, row.Max, row.Typical, row.Avg, row.StdDev,
			row.P99, row.P999)
		if row.Lost > 0 {
			fmt.Fprintf(r.w, " %d messages more had no answer\n", row.Lost)
		}
	}
}

// end prints the lines below, or everything in the other formats.
func (r *reporter) end() error {
	switch r.o.format() {
	case formatJSON:
		used := r.o.hello()
		used.MTU = r.mtu // the option may leave it to the ports
		enc := json.NewEncoder(r.w)
		enc.SetIndent("", "  ")
		return enc.Encode(struct {
			Test       string `json:"test"`
			Parameters *Hello `json:"parameters"`
			Results    []any  `json:"results"`
		}{r.o.test.op + " " + r.o.test.metric, used, r.rows})
	case formatCSV:
		return r.csv()
	}
	_, err := fmt.Fprint(r.w, rule)
	return err
}

func (r *reporter) csv() error {
	w := csv.NewWriter(r.w)
	mayLose := !r.o.service.reliable()
	f := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	var line []string
	if r.o.test.bandwidth() {
		line = []string{"bytes", "iterations", "bw_peak", "bw_average", "unit", "msg_rate_mpps"}
		if mayLose {
			line = append(line, "messages_arrived")
		}
	} else {
		line = []string{"bytes", "iterations", "t_min_usec", "t_max_usec", "t_typical_usec",
			"t_avg_usec", "t_stdev_usec", "percentile_99_usec", "percentile_99_9_usec"}
		if mayLose {
			line = append(line, "lost")
		}
	}
	w.Write(line)
	for _, row := range r.rows {
		switch row := row.(type) {
		case BWRow:
			line = []string{strconv.Itoa(row.Size), strconv.FormatInt(row.Count, 10), f(row.Peak),
				f(row.Average), row.Unit, f(row.MsgRate)}
			if mayLose {
				arrived := "" // of WRITEs nobody knows
				if row.Arrived != nil {
					arrived = strconv.FormatInt(*row.Arrived, 10)
				}
				line = append(line, arrived)
			}
		case LatResult:
			line = []string{strconv.Itoa(row.Size), strconv.FormatInt(row.Count, 10), f(row.Min),
				f(row.Max), f(row.Typical), f(row.Avg), f(row.StdDev), f(row.P99), f(row.P999)}
			if mayLose {
				line = append(line, strconv.FormatInt(row.Lost, 10))
			}
		}
		w.Write(line)
	}
	w.Flush()
	return w.Error()
}
