package novadb

import "context"

// Opener opens a Reader whose databases need not answer when the process starts.
type Opener struct{ conf Config }

// NewOpener checks the configuration, as Open does, and connects to nothing.
func NewOpener(c Config) (*Opener, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	return &Opener{conf: c}, nil
}

// Open is as the function Open. The caller closes the Reader.
func (o *Opener) Open(ctx context.Context) (*Reader, error) { return Open(ctx, o.conf) }
