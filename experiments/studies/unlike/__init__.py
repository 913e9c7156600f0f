"""Rules of thumb for devices that are not alike over proved optima, and published clusters."""
