"""Holds the manifests to what the schemas cannot say, and writes out their config: python3 kubernetes.py FOLDER CONFIG."""

import pathlib
import sys
import tomllib

import yaml


def main():
    folder, config = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    texts = {file.name: file.read_text() for file in folder.glob("*.yaml")}
    by_name = {name: yaml.safe_load(text) for name, text in texts.items()}
    kustomization = by_name.pop("kustomization.yaml")
    assert sorted(kustomization["resources"]) == sorted(by_name), "the kustomization names other files than there are"
    manifests = {manifest["kind"]: manifest for manifest in by_name.values()}

    deployment = manifests["Deployment"]["spec"]
    pod = deployment["template"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["replicas"] >= 2
    assert deployment["selector"]["matchLabels"] == labels
    assert manifests["Service"]["spec"]["selector"] == labels
    assert manifests["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert manifests["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == labels
    assert pod["serviceAccountName"] == manifests["ServiceAccount"]["metadata"]["name"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True and pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}

    names = {volume["name"] for volume in pod["volumes"]}
    for container in pod["containers"]:
        own = container["securityContext"]
        assert own["readOnlyRootFilesystem"] is True and own["allowPrivilegeEscalation"] is False
        assert own["capabilities"] == {"drop": ["ALL"]} and not own.get("privileged")
        assert container["resources"]["limits"]["memory"]
        assert {mount["name"] for mount in container["volumeMounts"]} == names
        assert not any("subPath" in mount for mount in container["volumeMounts"]), "such a file is never seen to change"
        ports = {port["name"] for port in container["ports"]}
        for probe, path in (("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
            asked = container[probe]["httpGet"]
            assert asked["path"] == path and asked["port"] in ports, probe
    text = manifests["ConfigMap"]["data"]["taskbridge.toml"]
    listens = tomllib.loads(text)["metrics"]["listen"].rsplit(":", 1)[1]
    numbered = {port["name"]: str(port["containerPort"]) for container in pod["containers"] for port in container["ports"]}
    notes = deployment["template"]["metadata"]["annotations"]
    assert numbered["metrics"] == notes["prometheus.io/port"] == listens, "the metrics are at another port"
    assert notes["prometheus.io/scrape"] == "true" and notes["prometheus.io/path"] == "/metrics"
    public = [port["targetPort"] for port in manifests["Service"]["spec"]["ports"]]
    assert public == ["http"], "clients are given more than the port for clients"
    opened = {rule["ports"][0]["port"]: rule["from"] for rule in manifests["NetworkPolicy"]["spec"]["ingress"]}
    assert set(opened) == {"http", "metrics"} and opened["http"] != opened["metrics"], "whoever may call may read the metrics"
    assert "Secret" not in manifests, "no secret belongs into a repository"
    maps = [volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume]
    assert maps == [manifests["ConfigMap"]["metadata"]["name"]]
    config.write_text(text)
    print(f"{len(by_name)} manifests agree with each other")


main()
