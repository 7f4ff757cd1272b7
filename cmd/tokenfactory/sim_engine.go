package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"tokenfactory/engines/sim"
)

type simEngineCommand struct {
	Listen string `help:"Address to listen on; port 0 takes a free one." default:"127.0.0.1:8000"`
	Model  string `help:"Model name it answers to." required:""`

	TTFT            time.Duration `name:"ttft" help:"Time to the first token." default:"80ms"`
	PrefillPerToken time.Duration `help:"Added to the time to the first token for each prompt token that is not cached." default:"0s"`
	ITL             time.Duration `name:"itl" help:"Time between tokens." default:"15ms"`
	TokensPerEvent  int           `help:"Tokens that one streamed event carries." default:"1"`
	Jitter          float64       `help:"Spread of times around their mean, as a share of it." default:"0.05"`
	TailShare       float64       `help:"Share of requests with a slow first token." default:"0"`
	TailFactor      float64       `help:"How much slower those are." default:"4"`
	Load            time.Duration `help:"Time until it is ready after its start." default:"0s"`
	MaxSeqs         int           `help:"Requests it runs at once; more wait." default:"256"`
	KVBlocks        int           `name:"kv-blocks" help:"Blocks of KV cache." default:"4096"`
	BlockSize       int           `help:"Tokens in a block." default:"16"`
	ContextLength   int           `help:"Longest prompt and answer together, in tokens." default:"32768"`
	OutputTokens    int           `help:"Length of an answer without a limit." default:"64"`
	NoPrefixCaching bool          `help:"Compute every prompt in full."`
	Seed            uint64        `help:"Seed of texts and spread." default:"1"`
	Fault           []string      `help:"What goes wrong from the start, such as slow-prefill=4x, errors=20%@30s or hidden-queue=500ms; may be repeated. While it runs, POST, GET and DELETE /sim/faults." placeholder:"KIND=STRENGTH"`
}

func (c *simEngineCommand) Run(ctx context.Context, log *slog.Logger) error {
	faults := make([]sim.Fault, len(c.Fault))
	for i, text := range c.Fault {
		var err error
		if faults[i], err = sim.ParseFault(text); err != nil {
			return err
		}
	}
	ln, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", c.Listen, err)
	}
	server := &http.Server{
		Handler: sim.New(sim.Options{
			Model: c.Model, TTFT: c.TTFT, PrefillPerToken: c.PrefillPerToken, ITL: c.ITL, TokensPerEvent: c.TokensPerEvent,
			Load: c.Load, Jitter: c.Jitter, TailShare: c.TailShare, TailFactor: c.TailFactor,
			MaxSeqs: c.MaxSeqs, KVBlocks: c.KVBlocks, BlockSize: c.BlockSize, ContextLength: c.ContextLength,
			OutputTokens: c.OutputTokens, NoPrefixCaching: c.NoPrefixCaching, Seed: c.Seed,
			Faults: faults,
			OnCrash: func() {
				log.Error("crashed as asked")
				os.Exit(1)
			},
		}),
		ReadHeaderTimeout: 10 * time.Second,
	}
	log.Info("practice engine serving", "address", ln.Addr().String(), "model", c.Model, "pid", os.Getpid())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		// A real engine aborts what runs when it is told to stop; so does this one.
		if err := server.Close(); err != nil {
			log.Warn("close", "err", err)
		}
	}()
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	<-stopped
	return nil
}
