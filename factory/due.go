package factory

// DueDelivery is a delivery whose time has come, with the channel that it goes to.
type DueDelivery struct {
	Delivery
	Channel Channel
}
