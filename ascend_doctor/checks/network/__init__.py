"""Checks of interfaces, links, ports and HCCL."""
