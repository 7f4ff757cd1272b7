package main

import (
	"context"
	"fmt"

	"tokenfactory/web/session"
)

type adminCommand struct {
	Token adminTokenCommand `cmd:"" help:"Print a new management token: it may do everything that an operator may."`
}

type adminTokenCommand struct{ storage }

// Run needs the data folder and not the server: whoever can read the folder owns
// the factory anyway.
func (c *adminTokenCommand) Run(ctx context.Context) error {
	st, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	secret, err := session.NewManagementToken(ctx, st)
	if err != nil {
		return fmt.Errorf("make a management token: %w", err)
	}
	fmt.Println(secret)
	return nil
}
