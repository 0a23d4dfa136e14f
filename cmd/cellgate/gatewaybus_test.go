package main

import (
	"context"
	"crypto/tls"
	"strings"
	"sync"
	"testing"

	"cellgate/internal/novaconf"
	"cellgate/internal/security/testca"
	"cellgate/internal/testaddr"
	"cellgate/internal/testwait"
)

func TestGatewayBus_NovaConf_GivesItsOptionsWithoutThePassword(t *testing.T) {
	conf := novaConfFile(t, `[DEFAULT]
transport_url = rabbit://nova:secret@mq1:5672,nova:secret@mq2:5672/vhost
[oslo_messaging_rabbit]
amqp_durable_queues = true
kombu_reconnect_delay = 2
[scheduler]
max_attempts = 5
[oslo_messaging_notifications]
driver = messagingv2
topics = notifications,audit
transport_url = rabbit://nova:secret@mq3/
retry = 1
[notifications]
notify_on_state_change = vm_state
`)
	rows, _ := printed(t, "gateway", "--cell", "cell1=127.0.0.1:1", "--bus-enabled", "--nova-conf", conf)
	for key, want := range map[string]string{
		"gateway.bus.transport_url":  "rabbit://nova:***@mq1:5672,nova:***@mq2:5672/vhost",
		"gateway.bus.durable_queues": "true", "gateway.bus.max_attempts": "5", "gateway.bus.control_exchange": "nova",
		"gateway.bus.notification_driver": "messagingv2", "gateway.bus.notification_topics": "notifications,audit",
		"gateway.bus.notification_url": "rabbit://nova:***@mq3/",
	} {
		if got := rows[key]; len(got) < 2 || got[1] != want {
			t.Errorf("%s: %q, want %s", key, got, want)
		}
	}
}

func TestPrintConfig_PasswordWithSigns_IsNotShown(t *testing.T) {
	for url, want := range map[string]string{
		"rabbit://nova:se@cret@mq1:5672/":            "rabbit://nova:***@mq1:5672/",
		"rabbit://nova@x:secret@mq1/":                "rabbit://nova@x:***@mq1/",
		"rabbit://nova@mq1:5672,nova:se:cret@mq2/v?": "rabbit://nova@mq1:5672,nova:***@mq2/v?",
	} {
		rows, _ := printed(t, "gateway", "--cell", "cell1=127.0.0.1:1", "--bus-enabled", "--bus-transport-url", url)
		if got := rows["gateway.bus.transport_url"][1]; got != want {
			t.Errorf("%s is shown as %s, want %s", url, got, want)
		}
	}
}

func TestGatewayBus_WrongKeys_AreRefusedWithoutThePassword(t *testing.T) {
	for want, flags := range map[string][]string{
		"gateway.bus.transport_url: must be set":    {"--bus-enabled"},
		"is not a driver that is served":            {"--bus-enabled", "--bus-transport-url", "kafka://u:secret@h"},
		"the port is not between 1 and 65535":       {"--bus-enabled", "--bus-transport-url", "rabbit://u:secret@h:x"},
		"gateway.bus.verify_host: needs ca":         {"--bus-enabled", "--bus-transport-url", "rabbit://h", "--bus-verify-host"},
		`gateway.bus.reasons: "all" is none of`:     {"--bus-enabled", "--bus-transport-url", "rabbit://h", "--bus-reasons", "all"},
		"gateway.bus.cert: and key are set":         {"--bus-enabled", "--bus-transport-url", "rabbit://h", "--bus-cert", "x"},
		`gateway.bus.notification_driver: "log" is`: {"--bus-enabled", "--bus-transport-url", "rabbit://h", "--bus-notification-driver", "log"},
		"gateway.bus.notification_url: ":            {"--bus-enabled", "--bus-transport-url", "rabbit://h", "--bus-notification-driver", "messaging", "--bus-notification-url", "kafka://u:secret@h"},
		"gateway.bus.prefetch: 0 is not between 1":  {"--bus-enabled", "--bus-transport-url", "rabbit://h", "--bus-prefetch", "0"},
	} {
		out, stderr, code := typed(t.Context(), "", append([]string{"gateway", "--cell", "cell1=127.0.0.1:1"}, flags...)...)
		if code != exitUsage || !strings.Contains(stderr, want) || strings.Contains(out+stderr, "secret") {
			t.Errorf("%v: exit %d\n%s", flags, code, stderr)
		}
	}
}

func TestServiceOf_AccountIsMissing_IsRefused(t *testing.T) {
	whole := novaconf.Service{AuthURL: "http://keystone/v3", Username: "u", Password: "p", UserDomainID: "default", ProjectDomainName: "Default"}
	for want, change := range map[string]func(*novaconf.Service){
		"must have auth_url, username and password": func(p *novaconf.Service) { p.Password = "" },
		"has auth_type v3token":                     func(p *novaconf.Service) { p.AuthType = "v3token" },
		"cafile: ":                                  func(p *novaconf.Service) { p.CAFile = "/nonexistent" },
	} {
		p := whole
		change(&p)
		if _, err := serviceOf("placement", 1, p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	got, err := serviceOf("placement", 1, whole)
	if err != nil || got.Auth.DomainID != "default" || got.Auth.DomainName != "" || got.Auth.Scope.DomainName != "Default" {
		t.Errorf("%+v %v", got, err)
	}
	if got, err := segments(true, novaconf.Service{}, novaconf.Service{}); got != nil || err != nil {
		t.Errorf("nobody is to be asked: %v %v", got, err)
	}
	if got, err := segments(true, whole, novaconf.Service{}); got != nil || err == nil || !strings.Contains(err.Error(), "[placement] of gateway.nova_conf must have") {
		t.Errorf("there is no account of Placement: %v %v", got, err)
	}
	if got, err := segments(true, whole, whole); got == nil || err != nil || got.Neutron.Type != "network" || got.Placement.Type != "placement" {
		t.Errorf("%+v %v", got, err)
	}
}

// A gateway reads the certificate of the bus for each connection, so a broker that restarts after the old
// one has ended gets the new one.
func TestGatewayBus_CertificateIsReplaced_NextConnectionShowsIt(t *testing.T) {
	dir, ca := t.TempDir(), testca.New("brokers")
	server, serverKey := ca.Issue(testca.Leaf{Server: true})
	pair, err := tls.X509KeyPair(server, serverKey)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert})
	if err != nil {
		t.Fatal(err)
	}
	shown := make(chan string)
	var brokers sync.WaitGroup
	defer brokers.Wait()
	defer func() { _ = l.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
	defer cancel()
	brokers.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			secure := conn.(*tls.Conn)
			if err := secure.HandshakeContext(ctx); err == nil {
				select {
				case shown <- secure.ConnectionState().PeerCertificates[0].SerialNumber.String():
				case <-ctx.Done():
				}
			}
			_ = conn.Close() // the gateway tries again
		}
	})
	cert, key := ca.Write(dir, "gateway", testca.Leaf{})
	launch(t, true, "gateway", "--cell", "cell1="+testaddr.Dead(t), "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--drain-delay", "0s",
		"--bus-enabled", "--bus-transport-url", "rabbit://u:p@"+l.Addr().String()+"/", "--bus-ssl",
		"--bus-ca", testca.Put(dir, "ca.pem", ca.PEM), "--bus-cert", cert, "--bus-key", key)
	next := func() string {
		select {
		case serial := <-shown:
			return serial
		case <-ctx.Done():
			t.Fatal("the gateway does not connect, or shows the old certificate only")
			return ""
		}
	}
	first := next()
	ca.Write(dir, "gateway", testca.Leaf{})
	for next() == first { //nolint:revive // until the new one is shown
	}
}
