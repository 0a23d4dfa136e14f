package config

// checkBus checks the bus keys that must fit each other. Package gateway/bus checks transport_url.
func (l *loader) checkBus(b Bus) {
	if !b.Enabled {
		return
	}
	if b.TransportURL == "" {
		l.bad("gateway.bus.transport_url", "must be set, here or as [DEFAULT] transport_url of nova_conf, when the bus is enabled")
	}
	l.needed("gateway.bus.control_exchange", b.Exchange)
	l.oneOf("gateway.bus.reasons", b.Reasons, "none", "filters", "counts")
	l.oneOf("gateway.bus.notification_driver", b.Notifications, "", "messaging", "messagingv2")
	if b.Notifications != "" && len(b.NotifyTopics) == 0 {
		l.bad("gateway.bus.notification_topics", "must name a topic when notification_driver is set")
	}
	if (b.Cert == "") != (b.Key == "") {
		l.bad("gateway.bus.cert", "and key are set together")
	}
	if b.VerifyHost && b.CA == "" {
		l.bad("gateway.bus.verify_host", "needs ca")
	}
}
