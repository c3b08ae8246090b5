"""Replays arrivals of jobs against a scaling policy, with the policy and the dispatch rules of the real fleet.

It needs no database, server or clock: the same trace, policy and seed give the same report.
"""
