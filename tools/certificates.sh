# Certificates of a network that intercepts TLS: read by run-uv and run-node.

# A setting of pip, by its name, as `pip install` reads it: a variable wins over the section of the command, and that over
# the global section; among files, site wins over user and that over global. $python is a Python that has pip.
set_for_pip() {
    "$python" -m pip config debug 2>/dev/null | awk -v name="$1" '
        /^[^ ]/ { kind = $1 }
        $1 == "install." name ":" || $1 == "global." name ":" {
            value = $0
            sub(/^ *[^ ]*: /, "", value)
            found[$1, kind] = value
        }
        END {
            variable = "PIP_" toupper(name)
            gsub("-", "_", variable)
            if (ENVIRON[variable] != "") { print ENVIRON[variable]; exit }
            split("install. global.", sections)
            split("env: site: user: global:", kinds)
            for (i = 1; i <= 2; i++) for (j = 1; j <= 4; j++)
                if ((sections[i] name ":", kinds[j]) in found) { print found[sections[i] name ":", kinds[j]]; exit }
        }'
}

# The file that was named for uv or for pip, or nothing.
named_certificates() {
    if [ -n "${SSL_CERT_FILE:-}" ]; then
        printf '%s\n' "$SSL_CERT_FILE"
    else
        set_for_pip cert
    fi
}

# Runs a program. If it fails because of a certificate, the last line says what to set.
run_with_hint() {
    errors=$(mktemp)
    trap 'rm -f "$errors"' EXIT
    status=0
    "$@" 2>"$errors" || status=$?
    cat "$errors" >&2
    # The second pattern is uv's word, the others are codes of Node.
    if [ "$status" != 0 ] && grep -qi 'certificate\|UnknownIssuer\|SELF_SIGNED_CERT\|UNABLE_TO_[A-Z_]*_CERT\|UNABLE_TO_VERIFY' "$errors"; then
        echo "This network's certificate is not trusted. Name the file that has it: export SSL_CERT_FILE=/path/to/ca.pem" >&2
    fi
    return "$status"
}
