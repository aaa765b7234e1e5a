"""Search policies on recorded calls: estimate the outages, price what each candidate does, choose, and show the trade-off."""
