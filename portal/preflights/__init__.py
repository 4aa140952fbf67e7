"""Checks of the network of gangs before they start, on the devices that they got."""
