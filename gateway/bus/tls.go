package bus

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
)

// verifyChain verifies a broker's certificate chain, but not its name. Without CAs nothing is
// verified, as in oslo.messaging without ssl_ca_file.
func verifyChain(roots *x509.CertPool) func(tls.ConnectionState) error {
	return func(state tls.ConnectionState) error {
		if roots == nil {
			return nil
		}
		if len(state.PeerCertificates) == 0 {
			return errors.New("the broker shows no certificate")
		}
		between := x509.NewCertPool()
		for _, c := range state.PeerCertificates[1:] {
			between.AddCert(c)
		}
		_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
		return err
	}
}
