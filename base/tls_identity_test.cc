#include "base/tls_identity.h"

#include <fstream>
#include <functional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/testing/certificates.h"
#include "gtest/gtest.h"

namespace stagecoach {
namespace {

using stagecoach::testing::TestAuthority;

class TlsIdentityTest : public ::testing::Test {
 protected:
  // InvalidArgument that names `file` and says `words`.
  static void ExpectRefused(const TlsFiles& files, const std::string& file,
                            const std::string& words) {
    const absl::Status status = TlsIdentity::Load(files).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), file)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), words)) << status;
  }

  const std::string folder_ = ::testing::TempDir();
  TestAuthority authority_{folder_, "ours"};
  const TlsFiles files_ = authority_.Issue("node");
};

TEST_F(TlsIdentityTest, HoldsWhatTheFilesHold) {
  TlsFiles files = files_;
  files.name = "stagecoach";
  const auto identity = TlsIdentity::Load(files);
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_TRUE(absl::StrContains((*identity)->authority(), "CERTIFICATE"));
  EXPECT_TRUE(absl::StrContains((*identity)->certificate(), "CERTIFICATE"));
  EXPECT_TRUE(absl::StrContains((*identity)->key(), "PRIVATE KEY"));
  EXPECT_EQ((*identity)->name(), "stagecoach");
  EXPECT_NE((*identity)->context(), nullptr);
}

TEST_F(TlsIdentityTest, NamesTheFlagThatIsMissing) {
  TlsFiles files = files_;
  files.key.clear();
  ExpectRefused(files, "--tls-key", "is missing");
  files = files_;
  files.authority.clear();
  ExpectRefused(files, "--tls-authority", "is missing");
  files = TlsFiles();
  files.name = "stagecoach";
  EXPECT_FALSE(files.empty());
  ExpectRefused(files, "--tls-authority", "--tls-certificate and --tls-key");
}

TEST_F(TlsIdentityTest, SaysWhichFileIsWrongAndWhy) {
  const std::string text = folder_ + "/text";
  std::ofstream(text) << "no PEM\n";
  TlsFiles files = files_;
  files.certificate = folder_ + "/nowhere";
  ExpectRefused(files, "/nowhere", "--tls-certificate");
  files.certificate = text;
  ExpectRefused(files, text, "no certificate in PEM");
  files = files_;
  files.authority = text;
  ExpectRefused(files, text, "no certificates in PEM");
  files = files_;
  files.key = authority_.Issue("other").key;
  ExpectRefused(files, "ours-other.key",
                absl::StrCat("not the key of ", files_.certificate));
}

TEST_F(TlsIdentityTest, AnEncryptedKeyIsRefusedAndNobodyIsAsked) {
  TlsFiles files = files_;
  files.key = authority_.EncryptKey(files_.key);
  ExpectRefused(files, files.key, "not encrypted");
}

TEST_F(TlsIdentityTest, TheCertificateMustServeBothSides) {
  TestAuthority::Request request;
  request.purpose = "serverAuth";
  ExpectRefused(authority_.Issue("server", request), "ours-server.pem",
                "ssl_client");
  request.purpose = "clientAuth";
  ExpectRefused(authority_.Issue("client", request), "ours-client.pem",
                "ssl_server");
  request.purpose = "serverAuth,clientAuth";
  EXPECT_TRUE(TlsIdentity::Load(authority_.Issue("both", request)).ok());
}

TEST_F(TlsIdentityTest, RefusesWhatPeersWouldRefuse) {
  TestAuthority::Request request;
  request.ends_in_seconds = -60;
  const TlsFiles expired = authority_.Issue("old", request);
  ExpectRefused(expired, "ours-old.pem", "has expired");
  request = TestAuthority::Request();
  request.begins_in_seconds = 600;
  ExpectRefused(authority_.Issue("new", request), "ours-new.pem",
                "is not yet valid");
  TestAuthority stranger(folder_, "theirs");
  TlsFiles files = stranger.Issue("node");
  files.authority = files_.authority;
  ExpectRefused(files, "theirs-node.pem", "issuer");
}

}  // namespace
}  // namespace stagecoach
