"""Upper bounds on the flow through devices that hold layers."""
