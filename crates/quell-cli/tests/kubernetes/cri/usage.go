package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// A reading of a cgroup's CPU time, and when: as sure as the time that the reading took.
type reading struct {
	at   time.Time
	used time.Duration
}

func (p *pod) read() (reading, error) {
	for {
		before := time.Now()
		text, err := os.ReadFile("/sys/fs/cgroup" + p.cgroup() + "/cpu.stat")
		if err != nil {
			return reading{}, err
		}
		took := time.Since(before)
		if took > 5*time.Millisecond {
			continue
		}
		number, _, _ := strings.Cut(strings.TrimPrefix(string(text), "usage_usec "), "\n")
		used, err := strconv.ParseInt(number, 10, 64)
		return reading{before.Add(took / 2), time.Duration(used) * time.Microsecond}, err
	}
}

// most is the largest part of a CPU, in thousandths, that the pod had over a second within so many seconds; a second begins at
// each tenth of one.
func (p *pod) most(seconds int) (string, error) {
	var readings []reading
	most := int64(0)
	for end := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		now, err := p.read()
		if err != nil {
			return "", err
		}
		readings = append(readings, now)
		for len(readings) > 2 && now.at.Sub(readings[1].at) >= time.Second {
			readings = readings[1:]
		}
		if span := now.at.Sub(readings[0].at); span >= time.Second {
			most = max(most, 1000*int64(now.used-readings[0].used)/int64(span))
		}
	}
	return fmt.Sprint(most), nil
}
