// What gobreaker adds to a call, in nanoseconds of processor time of the calling thread.
package main

import (
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/sony/gobreaker/v2"
)

const (
	rounds       = 20
	calls        = 200_000
	rusageThread = 1
)

type round struct {
	Closed float64 `json:"closed"`
	Open   float64 `json:"open"`
}

//go:noinline
func nothing() (int, error) { return 0, nil }

func used() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(rusageThread, &usage); err != nil {
		panic(err)
	}
	return float64(usage.Utime.Nano() + usage.Stime.Nano())
}

func cost(call func()) float64 {
	before := used()
	for number := 0; number < calls; number++ {
		call()
	}
	return (used() - before) / calls
}

func breaker() *gobreaker.CircuitBreaker[int] {
	return gobreaker.NewCircuitBreaker[int](gobreaker.Settings{
		Timeout:     time.Hour,
		ReadyToTrip: func(counts gobreaker.Counts) bool { return counts.ConsecutiveFailures >= 5 },
	})
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/sony/gobreaker/v2" {
			return module.Version
		}
	}
	return "unknown"
}

func main() {
	runtime.LockOSThread()
	closed, open := breaker(), breaker()
	down := errors.New("down")
	for number := 0; number < 5; number++ {
		_, _ = open.Execute(func() (int, error) { return 0, down })
	}
	if open.State() != gobreaker.StateOpen {
		panic("it is not open")
	}
	found := make([]round, 0, rounds)
	for number := 0; number < rounds; number++ {
		bare := cost(func() { _, _ = nothing() })
		found = append(found, round{
			Closed: cost(func() { _, _ = closed.Execute(nothing) }) - bare,
			Open:   cost(func() { _, _ = open.Execute(nothing) }) - bare,
		})
	}
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{
		"name": "gobreaker", "version": version(), "runtime": runtime.Version(), "rounds": found,
	})
}
