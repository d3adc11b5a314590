#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks docs/containers/: all containers that share buffers mount one folder of the host, set GPUSHARE_DIR to its
place in the container, and run as one user. Prints a line for each fault, and then exits with 1."""
import sys
from pathlib import Path

import yaml

FOLDER = Path("docs/containers")
GPUSHARE = ("gpushare", "gpushare-registry")


def check(what, user, folder, mounted, environment, command):
    """Check one container. `folder`: the folder on the host; `mounted`: its place in the container."""
    if not folder or not mounted:
        return f"{what}: the shared folder is not mounted"
    if str(user) in ("", "0", "None"):
        return f"{what}: no user, or root"
    if not command or command[0] not in GPUSHARE:
        return f"{what}: its command is none of {GPUSHARE}"
    if command[0] == "gpushare" and environment.get("GPUSHARE_DIR") != mounted:
        return f"{what}: GPUSHARE_DIR is not {mounted}"
    if command[0] == "gpushare-registry" and command[command.index("--dir") + 1] != mounted:
        return f"{what}: --dir is not {mounted}"
    return None


def compose():
    for name, service in yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"].items():
        volume = service["volumes"][0]
        yield name, service["user"], volume["source"], volume["target"], service["environment"], service["command"]


def kubernetes():
    for pod in yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text()):
        spec = pod["spec"]
        container, volume = spec["containers"][0], spec["volumes"][0]
        mount = container["volumeMounts"][0]
        if mount["name"] != volume["name"]:
            volume = {"hostPath": {"path": None}}
        environment = {entry["name"]: entry["value"] for entry in container.get("env", [])}
        yield (pod["metadata"]["name"], container["securityContext"]["runAsUser"], volume["hostPath"]["path"],
               mount["mountPath"], environment, container["command"])


def faults(file, services):
    folders, users = {service[2] for service in services}, {str(service[1]) for service in services}
    if len(services) < 3 or len(folders) != 1 or len(users) != 1:
        yield f"{file}: not three that share one folder as one user: folders {folders}, users {users}"
    for service in services:
        fault = check(*service)
        if fault:
            yield f"{file}: {fault}"


bad = [*faults("compose.yaml", list(compose())), *faults("kubernetes.yaml", list(kubernetes()))]
if bad:
    print("\n".join(bad))
sys.exit(bool(bad))
